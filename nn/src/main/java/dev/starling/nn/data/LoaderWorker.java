package dev.starling.nn.data;

import com.lmax.disruptor.AlertException;
import com.lmax.disruptor.RingBuffer;
import com.lmax.disruptor.Sequence;
import com.lmax.disruptor.SequenceBarrier;
import com.lmax.disruptor.TimeoutException;

/** Fills every n-th batch of the ring on a thread of its own, until its barrier is alerted. */
final class LoaderWorker implements Runnable {
    private final Dataset dataset;
    private final Example example;
    private final RingBuffer<BatchSlot> ring;
    private final SequenceBarrier published;
    private final ParkingWaitStrategy waiting;
    private final int number;
    private final int workers;
    /** The sequence up to which this worker is done. It counts the batches of other workers as done. */
    final Sequence done = new Sequence();

    LoaderWorker(DataLoaderConfig config, RingBuffer<BatchSlot> ring, SequenceBarrier published,
            ParkingWaitStrategy waiting, int number) {
        this.dataset = config.dataset();
        this.example = new Example(config.dataset().fields(), config.seed());
        this.ring = ring;
        this.published = published;
        this.waiting = waiting;
        this.number = number;
        this.workers = config.workers();
    }

    @Override
    public void run() {
        long next = done.get() + 1;
        while (true) {
            try {
                long available = published.waitFor(next);
                while (next <= available) {
                    published.checkAlert();
                    if (next % workers == number) {
                        fill(dataset, ring.get(next), example);
                    }
                    done.set(next++);
                    waiting.signalAllWhenBlocking();
                }
            } catch (TimeoutException | InterruptedException idle) {
                // A data set may leave its thread interrupted: only an alert means that the loader was closed.
                continue;
            } catch (AlertException closed) {
                return;
            }
        }
    }

    /** Fills a batch and starts its upload. A failure is stored in the batch for its reader. */
    static void fill(Dataset dataset, BatchSlot batch, Example example) {
        if (batch.failure != null) {
            return;
        }
        for (int i = 0; i < batch.size(); i++) {
            if (batch.discarded) {
                batch.failure = LoadException.ofClosed(null);
                return;
            }
            int index = -1;
            try {
                index = batch.index(i);
                example.moveTo(batch, i);
                example.pad(dataset, index);
                example.fill(dataset, index);
            } catch (Throwable e) {
                batch.failure = index < 0 ? LoadException.ofBatch(batch.number(), batch.epoch(), "prepared", e)
                        : LoadException.ofExample(index, batch.total(), batch.epoch(), e);
                return;
            }
        }
        try {
            batch.send();
        } catch (Throwable e) {
            batch.failure = LoadException.ofBatch(batch.number(), batch.epoch(), "uploaded", e);
        }
    }
}
