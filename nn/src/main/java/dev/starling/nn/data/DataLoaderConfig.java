package dev.starling.nn.data;

import java.time.Duration;

/**
 * The settings of a {@link DataLoader}; its builder explains them.
 *
 * @param dataset source of the examples
 * @param batchSize examples in a batch; on all ranks together if they share batches
 * @param workers number of worker threads; 0 prepares each batch when it is requested
 * @param prefetch batches that may be ready or in preparation, a power of two
 * @param shuffle whether each epoch has a random order
 * @param dropLast whether a smaller last batch is left out
 * @param seed determines, together with the epoch, order and augmentation
 * @param deadline how long the reader waits for a batch
 * @param lengths lengths of examples and batches
 * @param byLength whether batches have examples of like lengths
 */
record DataLoaderConfig(Dataset dataset, int batchSize, int workers, int prefetch, boolean shuffle, boolean dropLast,
        long seed, Duration deadline, Lengths lengths, boolean byLength) { }
