package firstfault;

import java.util.List;
import java.util.Optional;
import java.util.Properties;

import org.apache.flink.connector.kafka.lineage.DefaultKafkaDatasetFacet;
import org.apache.flink.connector.kafka.lineage.DefaultKafkaDatasetIdentifier;
import org.apache.flink.connector.kafka.lineage.KafkaDatasetFacet;
import org.apache.flink.connector.kafka.lineage.KafkaDatasetFacetProvider;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.flink.types.Row;

/** Writes rows (topic, key, value): one sink for all topics, so that a checkpoint is one transaction. The time is that of writing. */
public class TopicRows implements KafkaRecordSerializationSchema<Row>, KafkaDatasetFacetProvider {
    private static final long serialVersionUID = 1L;
    private final String[] topics;

    /** All topics that are written to, with commas: the sink looks for transactions that were left in them. */
    public TopicRows(String topics) {
        this.topics = topics.split(",");
    }

    @Override
    public ProducerRecord<byte[], byte[]> serialize(Row row, KafkaSinkContext context, Long timestamp) {
        return new ProducerRecord<>((String) row.getField(0), null, null, (byte[]) row.getField(1), (byte[]) row.getField(2));
    }

    @Override
    public Optional<KafkaDatasetFacet> getKafkaDatasetFacet() {
        return Optional.of(new DefaultKafkaDatasetFacet(DefaultKafkaDatasetIdentifier.ofTopics(List.of(topics)), new Properties()));
    }
}
