package firstfault;

import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;

/**
 * A watermark as soon as receive time has moved on, not by the wall clock: otherwise a job that catches up would see time jump,
 * and take that for a time in which the service was away.
 */
public class ReceiveTime implements WatermarkGenerator<Object> {
    private static final long STEP_MS = 50;
    private long newest = Long.MIN_VALUE + STEP_MS;

    public static WatermarkStrategy<Object> strategy() {
        return WatermarkStrategy.forGenerator(context -> new ReceiveTime());
    }

    @Override
    public void onEvent(Object event, long timestamp, WatermarkOutput output) {
        if (timestamp >= newest + STEP_MS) {
            newest = timestamp;
            output.emitWatermark(new Watermark(timestamp - 1));
        }
    }

    @Override
    public void onPeriodicEmit(WatermarkOutput output) {
    }
}
