package dev.starling.tensor;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.errors.ThreadException;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

class UnownedMemoryTest {
    private static Spec spec(long bytes) {
        return new Spec(DType.U8, Shape.of(bytes), Device.cpu());
    }

    /** The memory is not written to, so that the system need not provide it. */
    @Test
    void boundsMemoryThatWaitsForTheCollector() {
        System.gc();
        long before = Device.cpu().memory().live();
        long step = UnownedMemory.step(UnownedMemory.bytes());
        long most = 0;
        for (int i = 0; i < 64; i++) {
            Storage.allocate(spec(step / 16));
            most = Math.max(most, Device.cpu().memory().live() - before);
        }
        assertThat(most).isBetween(step / 2, 2 * step);
    }

    @Test
    void allowsReachableMemoryToGrow() {
        List<Tensor> kept = new ArrayList<>();
        long before = UnownedMemory.bytes();
        long bytes = UnownedMemory.step(before) / 4;
        for (int i = 0; i < 12; i++) {
            kept.add(Storage.allocate(spec(bytes)));
        }
        assertThat(kept).noneMatch(Tensor::isClosed);
        kept.forEach(Tensor::close);
        assertThat(UnownedMemory.bytes()).isLessThan(before + bytes);
    }

    /** Starts threads until the system refuses one, makes a tensor, ends a thread and makes another tensor. */
    static final class Probe {
        private Probe() {
        }

        public static void main(String[] arguments) throws InterruptedException {
            Deque<Thread> started = ThreadLimit.exhaust();
            try {
                Tensor.ones(1);
            } catch (ThreadException e) {
                System.out.println(e.getMessage());
            }
            started.peek().interrupt();
            started.peek().join();
            // A thread's stack is freed a moment after its end.
            for (int tries = 0; tries < 1000; tries++) {
                try {
                    System.out.println(Tensor.ones(1).item());
                    return;
                } catch (ThreadException e) {
                    Thread.sleep(10);
                }
            }
        }
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void makesTensorsAgainAfterTheCleanersThreadCouldNotStart() throws Exception {
        assertThat(ThreadLimit.run(Probe.class)).contains("cannot start: unable to create native thread", "ulimit -u",
                "pids.max", "\n1.0\n");
    }

    @Test
    void countsWhatNoScopeOwns() {
        System.gc();
        long mib = 1 << 20;
        Tensor tensor = Storage.allocate(spec(mib));
        long with = UnownedMemory.bytes();
        assertThat(with).isGreaterThanOrEqualTo(mib);
        try (Scope scope = Scope.open("test")) {
            Storage.allocate(spec(64 * mib));
            scope.adopt(tensor);
            assertThat(UnownedMemory.bytes()).isLessThanOrEqualTo(with - mib);
            Scope.release(tensor);
            assertThat(UnownedMemory.bytes()).isLessThanOrEqualTo(with);
        }
        tensor.close();
        assertThat(UnownedMemory.bytes()).isLessThanOrEqualTo(with - mib);
    }
}
