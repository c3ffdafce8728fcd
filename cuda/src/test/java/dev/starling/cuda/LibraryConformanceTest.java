package dev.starling.cuda;

import dev.starling.tensor.Device;
import dev.starling.tensor.conformance.Conformance;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.condition.EnabledIf;

/** What the backend asks of libraries, layouts, transposes, batches, epilogues, by libraries that the host plays. */
@EnabledIf(value = "dev.starling.cuda.emulated.Emulation#isPossible", disabledReason = "needs g++ on x86-64")
class LibraryConformanceTest {
    @TestFactory
    Stream<DynamicTest> conforms() {
        return Conformance.of(Device.of("cuda-emulated", 1)).filter(
                t -> t.getDisplayName().matches("(gradient of )?(matMul|linear|conv).*"));
    }
}
