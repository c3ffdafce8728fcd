package dev.starling.distributed.ps.server;

import com.lmax.disruptor.AlertException;
import com.lmax.disruptor.Sequence;
import com.lmax.disruptor.SequenceBarrier;
import com.lmax.disruptor.WaitStrategy;
import dev.starling.transport.spi.Backoff;

/**
 * Waits on a monitor while the ring is empty, and parks for short times while the previous stage processes an event. It
 * does not spin, because the trainer needs the processors. Allocates nothing.
 */
final class BackoffWaitStrategy implements WaitStrategy {
    private static final int YIELDS = 20;
    private static final long NAP_NS = 20_000;

    @Override
    public long waitFor(long sequence, Sequence cursor, Sequence dependent, SequenceBarrier barrier)
            throws AlertException, InterruptedException {
        if (cursor.get() < sequence) {
            synchronized (this) {
                // A publisher moves the cursor and then signals under the monitor, so no signal is missed.
                while (cursor.get() < sequence) {
                    barrier.checkAlert();
                    wait();
                }
            }
        }
        long available = dependent.get();
        for (int i = 0; available < sequence; i++, available = dependent.get()) {
            barrier.checkAlert();
            if (i < YIELDS) {
                Thread.yield();
            } else {
                Backoff.park(NAP_NS);
            }
        }
        return available;
    }

    @Override
    public void signalAllWhenBlocking() {
        synchronized (this) {
            notifyAll();
        }
    }
}
