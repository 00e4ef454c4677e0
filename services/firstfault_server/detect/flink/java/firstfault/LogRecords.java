package firstfault;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.kafka.shaded.org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.flink.kafka.shaded.org.apache.kafka.common.header.Header;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.api.functions.python.KeyByKeySelector;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/**
 * Reads records of the input topic as rows (key, bytes), in the form of rows.py, with what Python's source does not tell.
 *
 * Clock records have no key; their rows carry the watermark. Now and then those of the first partition also give a row to each
 * clock key, so that every stage has some in whichever key groups an instance of it gets.
 */
public class LogRecords implements KafkaRecordDeserializationSchema<Row> {
    private static final long serialVersionUID = 1L;
    private static final int CLOCK_PERIOD_MS = 10_000;
    private static final byte[] NOTHING = new byte[0];

    private final String[] clockKeys;
    private transient long clockPeriod;

    /** Clock keys for `count` key groups spread evenly over all. */
    public LogRecords(int maxParallelism, int count) {
        clockKeys = new String[count];
        KeyByKeySelector selector = new KeyByKeySelector();
        int missing = count;
        for (int i = 0; missing > 0; i++) {
            String key = "clock-" + i;
            int group = KeyGroupRangeAssignment.assignToKeyGroup(selector.getKey(Row.of(key)), maxParallelism);
            int place = (int) ((long) group * count / maxParallelism);
            // The first group of each stretch: an instance that has a whole stretch has its first group.
            if (group == (int) (((long) place * maxParallelism + count - 1) / count) && clockKeys[place] == null) {
                clockKeys[place] = key;
                missing--;
            }
        }
    }

    @Override
    public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Row> out) {
        byte[] key = record.key() == null ? NOTHING : record.key();
        byte[] body = record.value() == null ? NOTHING : record.value();
        byte[] signal = header(record, "signal");
        byte[] tenant = header(record, "tenant");
        ByteBuffer row = ByteBuffer.allocate(24 + signal.length + tenant.length + body.length);
        row.putInt(record.partition()).putLong(record.offset()).putLong(record.timestamp());
        row.putShort((short) signal.length).putShort((short) tenant.length);
        row.put(signal).put(tenant).put(body);
        boolean clock = key.length == 0 && new String(signal, StandardCharsets.UTF_8).equals("clock");
        String name = new String(key, StandardCharsets.UTF_8);
        if (!clock) {
            // Without a slash it would be nobody's key, or a clock's.
            out.collect(Row.of(name.indexOf('/') < 0 ? "?/" + name : name, row.array()));
            return;
        }
        out.collect(Row.of("", NOTHING));
        if (record.partition() == 0 && record.timestamp() / CLOCK_PERIOD_MS != clockPeriod) {
            clockPeriod = record.timestamp() / CLOCK_PERIOD_MS;
            long ns = record.timestamp() * 1_000_000;
            byte[] time = ByteBuffer.allocate(17).putLong(ns).putLong(ns).put((byte) 0).array();
            for (String each : clockKeys) {
                out.collect(Row.of(each, time));
            }
        }
    }

    private static byte[] header(ConsumerRecord<byte[], byte[]> record, String name) {
        Header header = record.headers().lastHeader(name);
        byte[] value = header == null || header.value() == null ? NOTHING : header.value();
        return value.length > Short.MAX_VALUE ? NOTHING : value;
    }

    @Override
    public TypeInformation<Row> getProducedType() {
        return Types.ROW(Types.STRING, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);
    }
}
