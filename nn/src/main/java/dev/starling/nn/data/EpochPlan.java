package dev.starling.nn.data;

import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import java.util.stream.LongStream;
import org.jspecify.annotations.Nullable;

/**
 * The examples in the batches of one pass over the data. A plan is a pure function of its arguments: any rank, at any
 * time, with any number of workers, computes the same plan.
 *
 * @param epoch number of the pass
 * @param order a permutation of the data set, or {@code null} for the order of the set
 * @param share the share of this process
 * @param total number of examples in the data set
 * @param examples number of examples that are divided into batches
 * @param batchSize examples in a batch; on all ranks together if they share it
 * @param batches number of batches; the last may be smaller
 */
record EpochPlan(int epoch, long @Nullable [] order, Share share, int total, long examples, int batchSize,
        int batches) {
    static EpochPlan of(int epoch, DataLoaderConfig config, Share share) {
        Generator random = Generator.seeded(config.seed()).split(epoch);
        int size = config.dataset().size();
        long[] order = config.shuffle() ? random.order(size) : null;
        if (config.byLength()) {
            order = config.lengths().sorted(order == null ? LongStream.range(0, size).toArray() : order,
                    config.batchSize(), config.shuffle() ? random.split(size) : null);
        }
        return of(epoch, order, size, config, share);
    }

    private static EpochPlan of(int epoch, long @Nullable [] order, int total, DataLoaderConfig config, Share share) {
        long examples = share.examples(total);
        int batchSize = config.batchSize();
        long batches = config.dropLast() ? examples / batchSize : Math.ceilDiv(examples, (long) batchSize);
        if (batches > Integer.MAX_VALUE) {
            throw TensorException.argument("data loader", "an epoch must have less than 2^31 batches, got " + batches,
                    "use larger batches");
        }
        return new EpochPlan(epoch, order, share, total, examples, batchSize, (int) batches);
    }

    /** Returns the plan of the same epoch for a share of the data set, whose size may have changed. */
    EpochPlan with(Share other, DataLoaderConfig config) {
        return config.dataset().size() == total ? of(epoch, order, total, config, other) : of(epoch, config, other);
    }

    private long first(int batch) {
        return (long) batch * batchSize;
    }

    private int cut(int batch) {
        return (int) Math.min(batchSize, examples - first(batch));
    }

    /** Returns the number of examples that a batch has on all ranks that share it. */
    int rows(int batch) {
        return share.total(first(batch), cut(batch));
    }

    /** Returns the number of examples of a batch that this process has. */
    int size(int batch) {
        return share.rows(first(batch), cut(batch));
    }

    int index(int batch, int i) {
        int place = share.place(first(batch), cut(batch), i);
        return order == null ? place : (int) order[place];
    }
}
