package firstfault;

import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.flink.types.Row;

/** Writes rows (topic, key, value): one sink for all topics, so that a checkpoint is one transaction. The time is that of writing. */
public class TopicRows implements KafkaRecordSerializationSchema<Row> {
    private static final long serialVersionUID = 1L;

    @Override
    public ProducerRecord<byte[], byte[]> serialize(Row row, KafkaSinkContext context, Long timestamp) {
        return new ProducerRecord<>((String) row.getField(0), null, null, (byte[]) row.getField(1), (byte[]) row.getField(2));
    }
}
