package dev.starling.nn.train;

import dev.starling.nn.data.Share;
import dev.starling.tensor.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;

/** Threads that train together in the simplest way: they exchange all values through arrays between two barriers. */
final class TrainingThreads {
    private final int[] weights;
    private final Object[] slots;
    private final CyclicBarrier barrier;
    /** The step whose success rank 1 does not notice; -1 for none. */
    volatile long missedStep = -1;

    TrainingThreads(int... weights) {
        this.weights = weights;
        slots = new Object[weights.length];
        barrier = new CyclicBarrier(weights.length);
    }

    /** Runs a body for each rank on a thread of its own and returns the results by rank. */
    <T> List<T> run(IntFunction<Callable<T>> body) throws Exception {
        List<T> results = new ArrayList<>();
        try (ExecutorService threads = Executors.newFixedThreadPool(weights.length)) {
            List<Future<T>> futures = new ArrayList<>();
            for (int rank = 0; rank < weights.length; rank++) {
                futures.add(threads.submit(body.apply(rank)));
            }
            for (Future<T> future : futures) {
                results.add(future.get(60, TimeUnit.SECONDS));
            }
        }
        return results;
    }

    @SuppressWarnings("unchecked")
    private <T> List<T> exchange(int rank, T value) {
        try {
            slots[rank] = value;
            barrier.await(30, TimeUnit.SECONDS);
            List<T> all = new ArrayList<>();
            for (Object slot : slots) {
                all.add((T) slot);
            }
            barrier.await(30, TimeUnit.SECONDS);
            return all;
        } catch (Exception e) {
            throw new IllegalStateException("rank " + rank + " waits in vain for the other ranks", e);
        }
    }

    Member member(int rank) {
        return new Member(rank);
    }

    final class Member implements DistributionStrategy, StreamsGradients, Collective {
        private final int rank;
        private TrainingState state;
        int[] batchSizes = new int[0];

        Member(int rank) {
            this.rank = rank;
        }

        @Override
        public int rank() {
            return rank;
        }

        @Override
        public int world() {
            return weights.length;
        }

        @Override
        public Share share() {
            return Share.part(rank, weights);
        }

        @Override
        public void start(TrainingState newState) {
            state = newState;
            restoreFromRank0();
        }

        /** Replaces the state of every rank by that of rank 0. */
        private void restoreFromRank0() {
            Map<String, float[]> tensors = new LinkedHashMap<>();
            state.tensors().forEach((path, p) -> tensors.put(path, p.value().toFloats()));
            Map<String, float[]> first = exchange(rank, tensors).getFirst();
            state.tensors().forEach((path, p) -> {
                Tensor value = Tensor.of(first.get(path), p.shape().dims());
                p.set(value);
                value.close();
            });
            state.restore(exchange(rank, state.notes()).getFirst());
        }

        @Override
        public void beforeForward(Tensor input) {
            batchSizes = Arrays.copyOf(batchSizes, batchSizes.length + 1);
            batchSizes[batchSizes.length - 1] = (int) input.size(0);
        }

        @Override
        public void gradient(int index, Tensor gradient) {
        }

        @Override
        public Step beforeStep(Tensor[] gradients) {
            float[][] own = new float[gradients.length][];
            for (int i = 0; i < own.length; i++) {
                own[i] = gradients[i] == null ? null : gradients[i].toFloats();
            }
            List<float[][]> all = exchange(rank, own);
            if (state.step() == missedStep && rank == 1) {
                restoreFromRank0();
                return Step.RESTORED;
            }
            for (int i = 0; i < gradients.length; i++) {
                long[] dims = state.optimizer().parameters().get(i).shape().dims();
                float[] sum = new float[(int) state.optimizer().parameters().get(i).shape().count()];
                for (float[][] each : all) {
                    for (int k = 0; each[i] != null && k < sum.length; k++) {
                        sum[k] += each[i][k];
                    }
                }
                gradients[i] = Tensor.of(sum, dims);
            }
            return Step.LOCAL;
        }

        @Override
        public void afterStep() {
            // Rank 1 is still at the previous step, unlike all other ranks.
            if (state.step() == missedStep + 1) {
                restoreFromRank0();
            }
        }

        @Override
        public boolean stops(boolean wanted) {
            return exchange(rank, wanted).contains(true);
        }

        @Override
        public void sum(double[] values) {
            double[] sum = new double[values.length];
            for (double[] each : exchange(rank, values.clone())) {
                for (int i = 0; i < sum.length; i++) {
                    sum[i] += each[i];
                }
            }
            System.arraycopy(sum, 0, values, 0, sum.length);
        }
    }
}
