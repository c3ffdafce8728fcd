package dev.starling.cuda;

import dev.starling.tensor.Device;
import dev.starling.tensor.conformance.Conformance;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.condition.EnabledIf;

/** The backend's host code and kernels against the reference, on an emulated GPU. */
@EnabledIf(value = "dev.starling.cuda.emulated.Emulation#isPossible", disabledReason = "needs g++ on x86-64")
class EmulatedConformanceTest {
    /** All tests, or with {@code -Dstarling.conformance=…} those in whose names the regular expression is found. */
    @TestFactory
    Stream<DynamicTest> conforms() {
        Predicate<String> wanted = Pattern.compile(System.getProperty("starling.conformance", "")).asPredicate();
        return Conformance.of(Device.of("cuda-emulated", 0)).filter(t -> wanted.test(t.getDisplayName()));
    }
}
