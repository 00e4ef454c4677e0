package firstfault;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.types.Row;

/**
 * Gathers the rows (key, bytes) for a stage by their key, so that a run of thousands of ranks costs the stage a few calls a second
 * and not thousands. Nothing is later for it: rows leave before time moves on, an urgent one at once with those before it. Nothing is
 * kept over a checkpoint: rows leave before its barrier.
 *
 * One row goes as it is; several as the byte 0xff, which no row begins with, and each with its length before it.
 */
public class Gather extends AbstractStreamOperator<Row> implements OneInputStreamOperator<Row, Row> {
    private static final long serialVersionUID = 1L;
    private static final int MOST_BYTES = 1 << 18;
    private static final int URGENT = 16;

    private transient Map<String, List<byte[]>> waiting;
    private transient int size;

    @Override
    public void open() throws Exception {
        super.open();
        waiting = new LinkedHashMap<>();
    }

    @Override
    public void processElement(StreamRecord<Row> element) {
        String key = (String) element.getValue().getField(0);
        byte[] row = (byte[]) element.getValue().getField(1);
        waiting.computeIfAbsent(key, each -> new ArrayList<>()).add(row);
        size += row.length;
        if (size > MOST_BYTES) {
            sendAll();
        } else if (row[URGENT] != 0) {
            send(key, waiting.remove(key));
        }
    }

    @Override
    public void processWatermark(Watermark mark) throws Exception {
        sendAll();
        super.processWatermark(mark);
    }

    @Override
    public void prepareSnapshotPreBarrier(long checkpoint) {
        sendAll();
    }

    @Override
    public void finish() throws Exception {
        sendAll();
        super.finish();
    }

    private void sendAll() {
        waiting.forEach(this::send);
        waiting.clear();
    }

    private void send(String key, List<byte[]> rows) {
        for (byte[] row : rows) {
            size -= row.length;
        }
        output.collect(new StreamRecord<>(Row.of(key, rows.size() == 1 ? rows.get(0) : packed(rows))));
    }

    private static byte[] packed(List<byte[]> rows) {
        int length = 1;
        for (byte[] row : rows) {
            length += 4 + row.length;
        }
        ByteBuffer packed = ByteBuffer.allocate(length).put((byte) 0xff);
        for (byte[] row : rows) {
            packed.putInt(row.length).put(row);
        }
        return packed.array();
    }
}
