package dev.starling.distributed.ps;

import com.lmax.disruptor.AlertException;
import com.lmax.disruptor.Sequence;
import com.lmax.disruptor.SequenceBarrier;
import com.lmax.disruptor.WaitStrategy;
import java.util.concurrent.locks.LockSupport;

/**
 * Sleeps while there is nothing in the ring, and naps while a stage before still works on what there is: a processor
 * that the training needs is not spun away. Allocates nothing.
 */
final class PoliteWait implements WaitStrategy {
    private static final int YIELDS = 20;
    private static final long NAP_NS = 20_000;

    @Override
    public long waitFor(long sequence, Sequence cursor, Sequence dependent, SequenceBarrier barrier)
            throws AlertException, InterruptedException {
        if (cursor.get() < sequence) {
            synchronized (this) {
                // Whoever publishes signals under the monitor, afterwards: none is missed in between.
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
                LockSupport.parkNanos(NAP_NS);
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
