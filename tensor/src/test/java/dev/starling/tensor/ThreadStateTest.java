package dev.starling.tensor;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import org.junit.jupiter.api.Test;

class ThreadStateTest {
    private static final long RANGE = 1L << 32;
    private static final Executor NEW_THREAD = work -> Thread.ofPlatform().daemon().start(work);

    private static long nextId() {
        try (Scope scope = Scope.open("id")) {
            return Tensor.scalar(1).id();
        }
    }

    @Test
    void aThreadWhoseIdsAreUsedUpTakesNoneOfAnotherThread() {
        long last = CompletableFuture.supplyAsync(() -> {
            ThreadState.current().nextId |= RANGE - 1;
            return nextId();
        }, NEW_THREAD).join();
        assertThat(last % RANGE).isEqualTo(RANGE - 1);
        long[] ids = CompletableFuture.supplyAsync(() -> {
            ThreadState.current().nextId |= RANGE - 1;
            long other = CompletableFuture.supplyAsync(ThreadStateTest::nextId, NEW_THREAD).join();
            return new long[] {nextId(), nextId(), other};
        }, NEW_THREAD).join();
        assertThat(ids[1] / RANGE).isGreaterThan(ids[2] / RANGE);
        assertThat(ids).doesNotHaveDuplicates();
    }
}
