package firstfault;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * Takes apart what one call of a stage made, in the form of rows.py: rows (topic, key, value), and rows (key, bytes) for the stages,
 * which leave by side outputs. A call hands over one packet, since each thing that crosses from Python costs more than making it.
 */
public class Packets extends ProcessFunction<byte[], Row> implements ResultTypeQueryable<Row> {
    private static final long serialVersionUID = 1L;
    private static final TypeInformation<byte[]> BYTES = PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;

    private final String[] topics;
    private final String[] stages;
    private transient OutputTag<Row>[] tags;

    /** Names with commas, in the order in which packets count them: topics first. */
    public Packets(String topics, String stages) {
        this.topics = topics.split(",");
        this.stages = stages.split(",");
    }

    /** The side output that leads to a stage. Rows in it have no timestamp of Flink's; they carry their own. */
    public static OutputTag<Row> tag(String stage) {
        return new OutputTag<>(stage, Types.ROW(Types.STRING, BYTES));
    }

    @Override
    @SuppressWarnings("unchecked")
    public void processElement(byte[] packet, Context context, Collector<Row> out) {
        if (tags == null) {
            tags = new OutputTag[stages.length];
            for (int i = 0; i < stages.length; i++) {
                tags[i] = tag(stages[i]);
            }
        }
        ByteBuffer left = ByteBuffer.wrap(packet);
        while (left.hasRemaining()) {
            int target = left.get();
            byte[] key = new byte[left.getInt()];
            byte[] value = new byte[left.getInt()];
            left.get(key).get(value);
            if (target < topics.length) {
                out.collect(Row.of(topics[target], key, value));
            } else {
                context.output(tags[target - topics.length], Row.of(new String(key, StandardCharsets.UTF_8), value));
            }
        }
    }

    @Override
    public TypeInformation<Row> getProducedType() {
        return Types.ROW(Types.STRING, BYTES, BYTES);
    }
}
