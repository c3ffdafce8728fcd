package dev.starling.distributed.collective.shared;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.collective.call.CollectiveCall;
import dev.starling.tensor.DType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(120)
class DirectCollectivesTest {
    private static final int[] COUNTS = {0, 1, 15, 16, 17, 1000, 1024, 1025, 50_000, 300_001};

    private final Arena arena = Arena.ofShared();
    private MemorySegment[] controls;
    private MemorySegment[] memories;

    @AfterEach
    void close() {
        arena.close();
    }

    private void map(int world, long bytes) {
        controls = new MemorySegment[world];
        memories = new MemorySegment[world];
        for (int r = 0; r < world; r++) {
            controls[r] = arena.allocate(DirectCollectives.CONTROL_BYTES, 4096);
            memories[r] = arena.allocate(bytes, 4096);
        }
    }

    private void run(int world, Program program) throws InterruptedException, ExecutionException {
        try (ExecutorService threads = Executors.newFixedThreadPool(world)) {
            List<Future<?>> ranks = new ArrayList<>();
            for (int r = 0; r < world; r++) {
                int rank = r;
                ranks.add(threads.submit(() -> program.run(rank, new DirectCollectives(rank, controls))));
            }
            for (Future<?> rank : ranks) {
                rank.get();
            }
        }
    }

    private interface Program {
        void run(int rank, DirectCollectives collectives);
    }

    private static void finish(DirectCollectives collectives) {
        while (!collectives.isDone()) {
            if (collectives.doWork() == 0) {
                Thread.yield();
            }
        }
    }

    private static float element(int rank, int i, int round) {
        return (i * 3 + rank * 5 + round) % 11 - 5;
    }

    private void fill(int rank, long offset, int count, int round) {
        for (int i = 0; i < count; i++) {
            memories[rank].set(ValueLayout.JAVA_FLOAT, offset + 4L * i, element(rank, i, round));
        }
    }

    private float at(int rank, long offset, int i) {
        return memories[rank].get(ValueLayout.JAVA_FLOAT, offset + 4L * i);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4, 7})
    void reducesRepeatedlyOnEveryRank(int world) throws Exception {
        map(world, 4L * 300_001 + 128);
        run(world, (rank, collectives) -> {
            Random pauses = new Random(rank);
            for (int round = 0; round < 60; round++) {
                int count = COUNTS[round % COUNTS.length];
                fill(rank, 128, count, round);
                if (pauses.nextInt(10) == 0) {
                    Thread.yield();
                }
                collectives.begin(CollectiveCall.allReduce(DType.F32, ReduceOp.SUM, count, "test"), memories, 128);
                finish(collectives);
                for (int i = 0; i < count; i++) {
                    float sum = 0;
                    for (int r = 0; r < world; r++) {
                        sum += element(r, i, round);
                    }
                    if (at(rank, 128, i) != sum) {
                        throw new AssertionError("round " + round + " rank " + rank + " element " + i + " of " + count
                            + ": " + at(rank, 128, i) + ", right is " + sum);
                    }
                }
            }
        });
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 5})
    void scattersGathersAndBroadcasts(int world) throws Exception {
        int chunk = 40_003;
        int count = chunk * world;
        map(world, 4L * count);
        run(world, (rank, collectives) -> {
            for (int round = 0; round < 10; round++) {
                fill(rank, 0, count, round);
                collectives.begin(CollectiveCall.reduceScatter(DType.F32, ReduceOp.MAX, count, ""), memories, 0);
                finish(collectives);
                for (int i = rank * chunk; i < (rank + 1) * chunk; i++) {
                    float max = element(0, i, round);
                    for (int r = 1; r < world; r++) {
                        max = Math.max(max, element(r, i, round));
                    }
                    check(at(rank, 0, i), max);
                }
                fill(rank, 0, count, round + 1);
                collectives.begin(CollectiveCall.allGather(DType.F32, count, ""), memories, 0);
                finish(collectives);
                for (int i = 0; i < count; i++) {
                    check(at(rank, 0, i), element(i / chunk, i, round + 1));
                }
                int root = round % world;
                fill(rank, 0, count, round + 2);
                collectives.begin(CollectiveCall.broadcast(DType.F32, count, root, ""), memories, 0);
                finish(collectives);
                for (int i = 0; i < count; i++) {
                    check(at(rank, 0, i), element(root, i, round + 2));
                }
            }
        });
    }

    private static void check(float got, float right) {
        if (got != right) {
            throw new AssertionError(got + ", right is " + right);
        }
    }

    @Test
    void givesAllRanksTheSameBits() throws Exception {
        int world = 4;
        int count = 100_000;
        map(world, 4L * count);
        run(world, (rank, collectives) -> {
            Random random = new Random(rank);
            for (int i = 0; i < count; i++) {
                memories[rank].setAtIndex(ValueLayout.JAVA_FLOAT, i, (float) random.nextGaussian());
            }
            collectives.begin(CollectiveCall.allReduce(DType.F32, ReduceOp.AVERAGE, count, ""), memories, 0);
            finish(collectives);
        });
        for (int r = 1; r < world; r++) {
            assertThat(memories[r].mismatch(memories[0])).isEqualTo(-1);
        }
    }

    @Test
    void noRankPassesABarrierBeforeAllArrive() {
        map(2, 64);
        DirectCollectives first = new DirectCollectives(0, controls);
        DirectCollectives second = new DirectCollectives(1, controls);
        first.begin(CollectiveCall.barrier(""), memories, 0);
        for (int i = 0; i < 100; i++) {
            first.doWork();
        }
        assertThat(first.isDone()).isFalse();
        assertThat(first.awaited()).isEqualTo(1);
        second.begin(CollectiveCall.barrier(""), memories, 0);
        finish(second);
        finish(first);
    }

    @Test
    void finishesForARankThatDoesNoWork() {
        map(3, 4L << 20);
        CollectiveCall call = CollectiveCall.allReduce(DType.F32, ReduceOp.SUM, 1 << 20, "");
        DirectCollectives[] ranks = new DirectCollectives[3];
        for (int r = 0; r < 3; r++) {
            fill(r, 0, 1 << 20, 0);
            ranks[r] = new DirectCollectives(r, controls);
            ranks[r].begin(call, memories, 0);
        }
        finish(ranks[1]);
        for (int i = 0; i < 1 << 20; i++) {
            check(at(2, 0, i), element(0, i, 0) + element(1, i, 0) + element(2, i, 0));
        }
    }

    @Test
    void namesBothCallsThatDiffer() {
        map(2, 1 << 20);
        DirectCollectives first = new DirectCollectives(0, controls);
        DirectCollectives second = new DirectCollectives(1, controls);
        first.begin(CollectiveCall.allReduce(DType.F32, ReduceOp.SUM, 1000, "bucket 3"), memories, 0);
        second.begin(CollectiveCall.allReduce(DType.F32, ReduceOp.SUM, 1001, "bucket 4"), memories, 0);
        for (DirectCollectives each : List.of(first, second)) {
            assertThatThrownBy(() -> finish(each)).isInstanceOf(CollectiveMismatchException.class)
                .hasMessageContaining("all reduce (sum) of f32[1000] for bucket 3")
                .hasMessageContaining("all reduce (sum) of f32[1001] for bucket 4");
        }
    }

    @Test
    void distinguishesTheNextCallOfARankThatIsAhead() {
        map(2, 1 << 20);
        DirectCollectives first = new DirectCollectives(0, controls);
        DirectCollectives second = new DirectCollectives(1, controls);
        CollectiveCall barrier = CollectiveCall.barrier("");
        CollectiveCall reduce = CollectiveCall.allReduce(DType.F32, ReduceOp.SUM, 1 << 17, "");
        for (int round = 0; round < 5; round++) {
            first.begin(barrier, memories, 0);
            second.begin(barrier, memories, 0);
            finish(second);
            second.begin(reduce, memories, 0);
            finish(first);
            first.begin(reduce, memories, 0);
            finish(second);
            finish(first);
        }
    }

    @Test
    void refusesASecondCollectiveMeanwhile() {
        map(2, 64);
        DirectCollectives one = new DirectCollectives(0, controls);
        one.begin(CollectiveCall.barrier(""), memories, 0);
        assertThatThrownBy(() -> one.begin(CollectiveCall.barrier(""), memories, 0))
            .isInstanceOf(IllegalStateException.class).hasMessageContaining("not done");
    }
}
