package dev.starling.distributed.bucket;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.CountingWire;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.group.Control;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Reductions run while the backward pass continues. */
@Timeout(60)
class BucketsTest {
    private static final Duration TIMEOUT = Duration.ofSeconds(20);
    private static final int COUNT = 1000;
    /** The size of two gradients of {@link #COUNT} numbers. */
    private static final long LIMIT = 2 * 4096;

    /** Memory that is not reduced; records which buckets were started, in order. */
    private static class Recorder implements Reducer {
        private final List<Integer> begun = new ArrayList<>();
        private final MemorySegment memory;
        private BucketPlan plan;

        Recorder(long bytes) {
            memory = Arena.ofAuto().allocate(bytes, BucketPlan.LINE);
        }

        private MemorySegment segment(int entry) {
            return memory.asSlice(plan.places().get(entry).offset(), plan.entries().get(entry).size());
        }

        @Override
        public Device device() {
            return Device.cpu();
        }

        @Override
        public void prepare(BucketPlan newPlan) {
            plan = newPlan;
        }

        @Override
        public Tensor slot(int entry, Shape shape) {
            return Tensor.wrap(segment(entry), plan.entries().get(entry).dtype(), shape.dims());
        }

        @Override
        public void clear(int entry) {
            segment(entry).fill((byte) 0);
        }

        @Override
        public MemorySegment vector() {
            return segment(plan.entries().size() - 1);
        }

        @Override
        public void start(int bucket) {
            begun.add(bucket);
        }

        @Override
        public void await(Duration atMost) {
        }

        @Override
        public void close() {
        }
    }

    /** A layer of nothing but parameters. */
    private record Bag(List<Parameter> all) implements Layer {
        @Override
        public Tensor forward(Tensor x) {
            return x;
        }

        @Override
        public void visit(Visitor visitor) {
            for (int i = 0; i < all.size(); i++) {
                visitor.parameter("p" + i, all.get(i));
            }
        }
    }

    /** Puts gradients in order; returns how many buckets were started after each, and after the end of the step. */
    private static List<Integer> begunAfterEach(Buckets buckets, Recorder recorder, Tensor gradient, int... order) {
        List<Integer> counts = new ArrayList<>();
        recorder.begun.clear();
        buckets.next();
        for (int index : order) {
            buckets.gradient(index, gradient);
            counts.add(recorder.begun.size());
        }
        buckets.complete();
        counts.add(recorder.begun.size());
        assertThat(recorder.begun).isEqualTo(IntStream.range(0, recorder.begun.size()).boxed().toList());
        return counts;
    }

    @Test
    void startsABucketAsSoonAsItIsFull() {
        Recorder[] made = new Recorder[1];
        try (Scope scope = Scope.open("test")) {
            Tensor gradient = Tensor.zeros(COUNT);
            List<Parameter> parameters = IntStream.range(0, 6).mapToObj(_ -> Parameter.of(Tensor.zeros(COUNT)))
                    .toList();
            Buckets.Builder builder = new Buckets.Builder(null, null, Sgd.over(new Bag(parameters)).build())
                    .bucketBytes(LIMIT);
            try (Buckets buckets = new Buckets(builder, null, 0, 1, TIMEOUT, bytes -> made[0] = new Recorder(bytes))) {
                // From the last gradient to the first; the vector, which fills at the end, is in the bucket of the
                // first two.
                assertThat(made[0].plan.buckets()).extracting(BucketPlan.Bucket::entries).containsExactly(2, 2, 3);
                assertThat(begunAfterEach(buckets, made[0], gradient, 5, 4, 3, 2, 1, 0))
                        .containsExactly(0, 1, 1, 2, 2, 2, 3);
                // A bucket that fills early waits for those before it, because all ranks must start buckets in the same
                // order.
                assertThat(begunAfterEach(buckets, made[0], gradient, 0, 1, 2, 3, 4, 5))
                        .containsExactly(0, 0, 0, 0, 0, 2, 3);
                // A missing gradient is detected only at the end.
                assertThat(begunAfterEach(buckets, made[0], gradient, 5, 4, 3, 1, 0)).containsExactly(0, 1, 1, 1, 1, 3);
                buckets.reorder(new int[] {0, 1, 2, 3, 4, 5});
                assertThat(begunAfterEach(buckets, made[0], gradient, 0, 1, 2, 3, 4, 5))
                        .containsExactly(0, 1, 1, 2, 2, 2, 3);
            }
        }
    }

    /** As many ranks as a group may have, all with the same gradients. */
    @Test
    void countsFrozenParametersOfTheLargestGroup() {
        try (Scope scope = Scope.open("test")) {
            List<Parameter> parameters = IntStream.range(0, 3).mapToObj(_ -> Parameter.of(Tensor.zeros(COUNT)))
                    .toList();
            Recorder sums = new Recorder(1 << 16) {
                @Override
                public void await(Duration atMost) {
                    for (int i = 0; i < parameters.size(); i++) {
                        float own = vector().getAtIndex(ValueLayout.JAVA_FLOAT, i);
                        vector().setAtIndex(ValueLayout.JAVA_FLOAT, i, Control.MAX_MEMBERS * own);
                    }
                }
            };
            Buckets.Builder builder = new Buckets.Builder(null, null, Sgd.over(new Bag(parameters)).build());
            parameters.get(2).freeze();
            try (Buckets buckets = new Buckets(builder, null, 0, Control.MAX_MEMBERS, TIMEOUT, _ -> sums)) {
                buckets.gradient(0, Tensor.ones(COUNT));
                Tensor[] gradients = new Tensor[3];
                buckets.sum(gradients);
                assertThat(gradients[0]).isNotNull();
                assertThat(gradients[1]).isNull();
                assertThat(gradients[2]).isNull();
            }
        }
    }

    /** Two ranks have the sum of one gradient before either has the next gradient. */
    @Test
    void sendsGradientsBeforeTheLastOneArrives() {
        ThreadLocal<LongAdder> counters = ThreadLocal.withInitial(LongAdder::new);
        TransportConfig local = TransportConfig.of("local", Secret.random()).sharedMemory(false);
        Cluster both = new Cluster(local, 2, Coordinator.OnLoss.END);
        both.around(wire -> new CountingWire(wire, counters.get())).run(group -> {
            LongAdder sent = counters.get();
            try (Scope scope = Scope.open("test");
                    Layer net = Sequential.of(Linear.of(3, 5, Generator.seeded(1)), Linear.of(5, 20_000,
                            Generator.seeded(2)));
                    Optimizer sgd = Sgd.over(net).build();
                    RingAllReduce ring = RingAllReduce.over(group).bucketBytes(1).build()) {
                ring.start(TrainingState.of(net, sgd));
                long before = sent.sum();
                Tensor[] gradients = sgd.parameters().stream().map(p -> p.value().copy()).toArray(Tensor[]::new);
                ring.gradient(3, gradients[3]);
                // Each rank sends one half of 20,000 numbers to be summed, and the other half as sums.
                assertThat(group.await(() -> sent.sum() - before >= 4 * 20_000, TIMEOUT)).isTrue();
                for (int i = 2; i >= 0; i--) {
                    ring.gradient(i, gradients[i]);
                }
                assertThat(ring.beforeStep(gradients)).isEqualTo(DistributionStrategy.Step.LOCAL);
                return null;
            }
        });
    }
}
