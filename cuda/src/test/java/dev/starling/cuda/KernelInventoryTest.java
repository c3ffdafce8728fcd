package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.Device;
import dev.starling.tensor.conformance.Conformance;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

class KernelInventoryTest {
    /** The kernels listed without computing are those that a computing GPU uses. */
    @Test
    @EnabledIf(value = "dev.starling.cuda.emulated.Emulation#isAvailable", disabledReason = "needs g++ on x86-64")
    void listsEveryKernel() throws Throwable {
        Predicate<String> some = Pattern.compile("^(add|sum|softmax|matmul|take|sort|adam|maxPool2d) f32$")
                .asPredicate();
        Device emulated = Device.of("cuda-emulated", EmulatedProvider.ISOLATED);
        for (DynamicTest test : Conformance.of(emulated).filter(t -> some.test(t.getDisplayName())).toList()) {
            test.getExecutable().execute();
        }
        List<String> listed = new ArrayList<>();
        for (KernelSource source : KernelInventory.list(some, true, source -> { })) {
            listed.add(source.text());
        }
        for (KernelSource source : ((CudaBackend) emulated.backend()).compiler().sources()) {
            assertThat(listed.contains(source.text())).as(source.name()).isTrue();
        }
    }
}
