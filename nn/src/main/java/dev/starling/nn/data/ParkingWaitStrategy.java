package dev.starling.nn.data;

import com.lmax.disruptor.AlertException;
import com.lmax.disruptor.Sequence;
import com.lmax.disruptor.SequenceBarrier;
import com.lmax.disruptor.TimeoutException;
import com.lmax.disruptor.WaitStrategy;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Waits asleep, for whatever sequence is waited for, and gives up after a time. Unlike the blocking strategies that
 * come with the ring it does not spin for sequences of other consumers; these must signal when they move on.
 */
final class ParkingWaitStrategy implements WaitStrategy {
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition moved = lock.newCondition();
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
            // Whoever moves a sequence signals under the lock, after the move: none is missed in between.
            while ((available = dependent.get()) < sequence) {
                barrier.checkAlert();
                if (left <= 0) {
                    throw TimeoutException.INSTANCE;
                }
                left = moved.awaitNanos(left);
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
            moved.signalAll();
        } finally {
            lock.unlock();
        }
    }
}
