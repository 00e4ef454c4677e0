import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.elasticsearch.bootstrap.BootstrapInfo;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginsLoader;

/**
 * Runs one Elasticsearch node until a signal ends it: java … ElasticsearchNode HOME CONFIG.
 *
 * <p>It stands in for Elastic's own start, which is not published. What that does on top is left out: entitlements, security, the
 * refusal to run as root. For tests and laptops on the loopback interface only.
 */
public final class ElasticsearchNode {
    private static final String NAME = "firstfault";

    private ElasticsearchNode() {}

    public static void main(String[] arguments) throws Exception {
        // Logging has to stand before anything else of Elasticsearch is touched.
        LogConfigurator.registerErrorListener();
        LogConfigurator.configureESLogging();
        BootstrapInfo.init();
        Environment environment = environment(arguments[0], Path.of(arguments[1]));
        LogConfigurator.setClusterName(NAME);
        LogConfigurator.setNodeName(NAME);
        LogConfigurator.configure(environment, true);

        Node node = new Node(environment, plugins(environment));
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(node)));
        node.start();
        main.join();
    }

    private static Environment environment(String home, Path config) {
        Settings settings = Settings.builder().put("path.home", home).build();
        return InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), config, () -> NAME);
    }

    private static PluginsLoader plugins(Environment environment) {
        var modules = PluginsLoader.loadModulesBundles(environment.modulesDir(), false);
        return PluginsLoader.createPluginsLoader(modules, PluginsLoader.loadPluginsBundles(environment.pluginsDir(), false), Map.of());
    }

    private static void stop(Node node) {
        try (node) {
            node.prepareForClose();
            node.close();
            node.awaitClose(20, TimeUnit.SECONDS);
        } catch (Exception error) {
            error.printStackTrace();
        }
    }
}
