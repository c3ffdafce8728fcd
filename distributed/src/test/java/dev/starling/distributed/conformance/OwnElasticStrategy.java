package dev.starling.distributed.conformance;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.Group;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.bucket.Buckets;
import dev.starling.distributed.epoch.MembershipEpochs;
import dev.starling.nn.data.Share;
import dev.starling.nn.train.Collective;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.StreamsGradients;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** What a user would write: an elastic strategy that sums gradients during the backward pass. */
final class OwnElasticStrategy implements DistributionStrategy, StreamsGradients, Collective {
    private final MembershipEpochs epochs;
    private final Group group;
    private TrainingState state;
    private Collectives collectives;
    private Buckets buckets;
    private int rank;
    private int world;
    private boolean requested;
    private boolean stops;

    OwnElasticStrategy(Group group) {
        this.group = group;
        epochs = MembershipEpochs.of(group, true, this::begin, this::close);
        rank = group.rank();
        world = group.world();
    }

    private void begin(Collectives ofEpoch) {
        collectives = ofEpoch;
        rank = group.rank();
        world = group.world();
        stops = false;
        buckets = Buckets.over(group, collectives, state.optimizer()).numbers(1).open();
    }

    @Override
    public int rank() {
        return rank;
    }

    @Override
    public int world() {
        return world;
    }

    @Override
    public Share share() {
        return Share.part(rank, world);
    }

    @Override
    public void start(TrainingState newState) {
        state = newState;
        epochs.start(state);
    }

    @Override
    public void gradient(int index, Tensor gradient) {
        buckets.gradient(index, gradient);
    }

    @Override
    public Step beforeStep(Tensor[] gradients) {
        buckets.number(0, requested ? 1 : 0);
        if (!epochs.run(() -> buckets.sum(gradients))) {
            return Step.RESTORED;
        }
        stops = buckets.number(0) > 0;
        return Step.LOCAL;
    }

    @Override
    public void afterStep() {
        epochs.run(buckets::next);
    }

    @Override
    public boolean stops(boolean requestsStop) {
        requested = requestsStop;
        return stops;
    }

    @Override
    public void sum(double[] values) {
        epochs.run(() -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment all = arena.allocateFrom(ValueLayout.JAVA_DOUBLE, values);
                collectives.allReduce(all, DType.F64, ReduceOp.SUM);
                MemorySegment.copy(all, ValueLayout.JAVA_DOUBLE, 0, values, 0, values.length);
            }
        });
    }

    @Override
    public void close() {
        if (buckets != null) {
            buckets.close();
            buckets = null;
        }
    }
}
