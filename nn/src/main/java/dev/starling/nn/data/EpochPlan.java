package dev.starling.nn.data;

import dev.starling.tensor.Generator;

/**
 * Which examples make up the batches of one pass over the data. A function of its arguments: any rank, at any time,
 * with any number of workers, makes the same plan.
 *
 * @param epoch number of the pass
 * @param order a permutation of the data set, or {@code null} for the order of the set
 * @param rank this process among {@code world}; takes every {@code world}-th example
 * @param world number of processes
 * @param examples that this process takes
 * @param batchSize examples in a batch
 * @param batches number of batches; the last may be smaller
 */
record EpochPlan(int epoch, long[] order, int rank, int world, int examples, int batchSize, int batches) {
    static EpochPlan of(int epoch, DataLoader.Builder how, int examples, int batches) {
        long[] order = how.shuffle ? Generator.seeded(how.seed).split(epoch).order(how.dataset.size()) : null;
        return new EpochPlan(epoch, order, how.rank, how.world, examples, how.batchSize, batches);
    }

    int size(int batch) {
        return Math.min(batchSize, examples - batch * batchSize);
    }

    int index(int batch, int i) {
        int place = (batch * batchSize + i) * world + rank;
        return order == null ? place : (int) order[place];
    }
}
