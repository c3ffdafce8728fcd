package dev.starling.nn.data;

import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;

/**
 * Which examples make up the batches of one pass over the data. A function of its arguments: any rank, at any time,
 * with any number of workers, makes the same plan.
 *
 * @param epoch number of the pass
 * @param order a permutation of the data set, or {@code null} for the order of the set
 * @param share what this process takes
 * @param examples that batches are cut from
 * @param batchSize examples in a batch, of all ranks where they share it
 * @param batches number of batches; the last may be smaller
 */
record EpochPlan(int epoch, long[] order, Share share, long examples, int batchSize, int batches) {
    static EpochPlan of(int epoch, DataLoader.Builder how, Share share) {
        long[] order = how.shuffle ? Generator.seeded(how.seed).split(epoch).order(how.dataset.size()) : null;
        return of(epoch, order, how, share);
    }

    private static EpochPlan of(int epoch, long[] order, DataLoader.Builder how, Share share) {
        long examples = share.examples(how.dataset.size());
        long batches = how.dropLast ? examples / how.batchSize : Math.ceilDiv(examples, (long) how.batchSize);
        if (batches > Integer.MAX_VALUE) {
            throw TensorException.argument("data loader", "an epoch must have less than 2^31 batches, got " + batches,
                    "use larger batches");
        }
        return new EpochPlan(epoch, order, share, examples, how.batchSize, (int) batches);
    }

    /** Returns the plan of the same epoch for another share. */
    EpochPlan with(Share other, DataLoader.Builder how) {
        return of(epoch, order, how, other);
    }

    private long first(int batch) {
        return (long) batch * batchSize;
    }

    private int cut(int batch) {
        return (int) Math.min(batchSize, examples - first(batch));
    }

    /** Returns how many examples a batch has on all ranks that share it. */
    int rows(int batch) {
        return share.total(first(batch), cut(batch));
    }

    /** Returns how many of them are this process's. */
    int size(int batch) {
        return share.rows(first(batch), cut(batch));
    }

    int index(int batch, int i) {
        int place = share.place(first(batch), cut(batch), i);
        return order == null ? place : (int) order[place];
    }
}
