package dev.starling.nn.data;

import com.lmax.disruptor.AlertException;
import com.lmax.disruptor.Sequence;
import com.lmax.disruptor.SequenceBarrier;
import com.lmax.disruptor.TimeoutException;
import com.lmax.disruptor.WaitStrategy;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Waits by parking the thread until a sequence is available or a timeout ends. The blocking strategies of the Disruptor
 * spin for sequences of other consumers. This one parks for them, too, and these consumers must signal when they
 * advance.
 */
final class ParkingWaitStrategy implements WaitStrategy {
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition advanced = lock.newCondition();
    private final long timeoutNs;

    ParkingWaitStrategy(long timeoutNs) {
        this.timeoutNs = timeoutNs;
    }

    @Override
    public long waitFor(long sequence, Sequence cursor, Sequence dependent, SequenceBarrier barrier)
            throws AlertException, InterruptedException, TimeoutException {
        long available = dependent.get();
        if (available >= sequence) {
            return available;
        }
        long left = timeoutNs;
        lock.lock();
        try {
            // A thread that advances a sequence signals under the lock, after it has advanced it: no signal can be
            // missed.
            while ((available = dependent.get()) < sequence) {
                barrier.checkAlert();
                if (left <= 0) {
                    throw TimeoutException.INSTANCE;
                }
                left = advanced.awaitNanos(left);
            }
        } finally {
            lock.unlock();
        }
        return available;
    }

    @Override
    public void signalAllWhenBlocking() {
        lock.lock();
        try {
            advanced.signalAll();
        } finally {
            lock.unlock();
        }
    }
}
