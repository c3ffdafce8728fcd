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

/**
 * Data-parallel training by the processes of a group, which sums gradients while the backward pass runs, and continues
 * after the loss of a process. A strategy of your own differs from it where it wants to.
 */
final class ElasticStrategy implements DistributionStrategy, StreamsGradients, Collective {
    private final Group group;
    private final MembershipEpochs epochs;
    private TrainingState state;
    private Collectives collectives;
    private Buckets buckets;
    private int rank;
    private int world;
    private boolean requestsStop;
    private boolean stops;

    ElasticStrategy(Group group) {
        this.group = group;
        epochs = MembershipEpochs.of(group, true, this::begin, this::close);
        assignRank();
    }

    /** Reads both in the same epoch: they change with the members, also between two calls. */
    private void assignRank() {
        long epoch;
        do {
            epoch = group.epoch();
            rank = group.rank();
            world = group.world();
        } while (epoch != group.epoch());
    }

    /** Creates what belongs to a membership epoch. */
    private void begin(Collectives ofEpoch) {
        collectives = ofEpoch;
        assignRank();
        stops = false;
        buckets = Buckets.over(group, collectives, state.optimizer()).numbers(1).open();
    }

    public int rank() {
        return rank;
    }

    public int world() {
        return world;
    }

    public Share share() {
        return Share.part(rank, world);
    }

    public void start(TrainingState newState) {
        state = newState;
        epochs.start(state);
    }

    public void gradient(int index, Tensor gradient) {
        buckets.gradient(index, gradient);
    }

    public Step beforeStep(Tensor[] gradients) {
        buckets.number(0, requestsStop ? 1 : 0);
        if (!epochs.run(() -> buckets.sum(gradients))) {
            return Step.RESTORED;
        }
        stops = buckets.number(0) > 0;
        return Step.LOCAL;
    }

    public void afterStep() {
        epochs.run(buckets::next);
    }

    /** A request takes effect a step later, when it has travelled with the gradients of all ranks. */
    public boolean stops(boolean requested) {
        requestsStop = requested;
        return stops;
    }

    public void sum(double[] values) {
        epochs.run(() -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment all = arena.allocateFrom(ValueLayout.JAVA_DOUBLE, values);
                collectives.allReduce(all, DType.F64, ReduceOp.SUM);
                MemorySegment.copy(all, ValueLayout.JAVA_DOUBLE, 0, values, 0, values.length);
            }
        });
    }

    public void close() {
        if (buckets != null) {
            buckets.close();
            buckets = null;
        }
    }
}
