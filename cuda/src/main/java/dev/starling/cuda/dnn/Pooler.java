package dev.starling.cuda.dnn;

import dev.starling.tensor.DType;

/**
 * A library that averages windows on a device. Images lie row-major or channels last, without gaps. Each method queues
 * one operation and returns whether it could; where not, nothing was queued. Safe for use by several threads.
 */
public interface Pooler {
    /** Tells whether it pools a type. */
    boolean takes(DType type);

    /** Sets {@code y} to the means of the windows of {@code x}. */
    boolean average(PoolingCall call, long x, long y);

    /** Sets {@code x} to its gradient from {@code g}, that of y. */
    boolean averageGradient(PoolingCall call, long g, long x);
}
