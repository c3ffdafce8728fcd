package dev.starling.distributed.ring;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import dev.starling.distributed.Cluster;
import dev.starling.distributed.bucket.GradientCodec;
import dev.starling.nn.data.Share;
import dev.starling.nn.train.Collective;
import dev.starling.nn.train.Concludes;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.StreamsGradients;
import dev.starling.nn.train.TrainingListener;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Device;
import dev.starling.tensor.Tensor;
import java.lang.management.ManagementFactory;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Memory consumption of the strategy itself in a long run. */
@Timeout(180)
class FlatRingTest {
    private static final int WINDOW = 100;

    /** Counts the bytes that calls allocate on the heap. */
    private static final class MeteredStrategy implements DistributionStrategy, StreamsGradients, Collective, Concludes,
            TrainingListener {
        private final ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        private final RingAllReduce ring;
        private final int steps;
        private long begun;
        private long bytes;
        private long windowBytes;
        private long least = Long.MAX_VALUE;
        private final long[] allocations = new long[3];

        MeteredStrategy(RingAllReduce ring, int steps) {
            this.ring = ring;
            this.steps = steps;
        }

        private void begin() {
            begun = threads.getCurrentThreadAllocatedBytes();
        }

        private void end() {
            bytes += threads.getCurrentThreadAllocatedBytes() - begun;
        }

        /** The minimum over hundreds of steps in the second half of the run, because compilers may be late. */
        double perStep() {
            return least / (double) WINDOW;
        }

        @Override
        public void stepEnded(Progress progress) {
            long step = progress.step();
            if (step % WINDOW == 0) {
                least = step > steps / 2 ? Math.min(least, bytes - windowBytes) : least;
                windowBytes = bytes;
            }
            if (step * 4 >= 2L * steps) {
                int quarter = (int) Math.min(2, step * 4 / steps - 2);
                allocations[quarter] = Device.cpu().memory().allocations();
            }
        }

        /** Whether the tensors' memory grew both in the third quarter and in the last: once may be chance. */
        boolean grows() {
            return allocations[1] > allocations[0] && allocations[2] > allocations[1];
        }

        @Override
        public int rank() {
            return ring.rank();
        }

        @Override
        public int world() {
            return ring.world();
        }

        @Override
        public Share share() {
            begin();
            Share share = ring.share();
            end();
            return share;
        }

        @Override
        public void start(TrainingState state) {
            ring.start(state);
        }

        @Override
        public void beforeForward(Tensor input) {
            begin();
            ring.beforeForward(input);
            end();
        }

        @Override
        public void gradient(int index, Tensor gradient) {
            begin();
            ring.gradient(index, gradient);
            end();
        }

        @Override
        public Step beforeStep(Tensor[] gradients) {
            begin();
            Step decision = ring.beforeStep(gradients);
            end();
            return decision;
        }

        @Override
        public void afterStep() {
            begin();
            ring.afterStep();
            end();
        }

        @Override
        public boolean stops(boolean wanted) {
            begin();
            boolean stops = ring.stops(wanted);
            end();
            return stops;
        }

        @Override
        public void settle() {
            ring.settle();
        }

        @Override
        public void sum(double[] values) {
            ring.sum(values);
        }

        @Override
        public void finish() {
            ring.finish();
        }

        @Override
        public void close() {
            ring.close();
        }
    }

    @Test
    void allocatesNoMemoryPerStep() {
        assertFlat(200, null);
    }

    /** Compilers take long for the loops of codecs. */
    @ParameterizedTest
    @MethodSource("dev.starling.distributed.ring.CompressedRingTest#codecs")
    @Tag("stress")
    void allocatesNoMemoryPerCompressedStep(GradientCodec codec) {
        assertFlat(1000, codec);
    }

    @Test
    @Tag("stress")
    void allocatesNoMemoryInTenThousandSteps() {
        assertFlat(1000, null);
    }

    private static void assertFlat(int epochs, GradientCodec codec) {
        Cluster.awaitEarlier();
        List<MeteredStrategy> both = Cluster.local(2).run(group -> {
            MeteredStrategy metered = new MeteredStrategy(RingAllReduce.over(group).bucketBytes(512).codec(codec)
                    .build(), 11 * epochs);
            Runs.train(Runs::mlp, metered, b -> b.epochs(epochs).listeners(metered));
            return metered;
        });
        for (MeteredStrategy each : both) {
            // Four gradients are each copied by an operation, whose operands are in an array.
            assertThat(each.perStep()).isLessThan(4 * 200 + 100);
            assertThat(each.grows()).isFalse();
        }
        assertThat(Thread.getAllStackTraces().keySet()).noneMatch(t -> t.getName().startsWith("starling-group"));
    }
}
