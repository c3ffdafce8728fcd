package dev.starling.tensor;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

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
