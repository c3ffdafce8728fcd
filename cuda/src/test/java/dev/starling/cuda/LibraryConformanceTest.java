package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.emulated.PlayedLibraries;
import dev.starling.tensor.Device;
import dev.starling.tensor.conformance.Conformance;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.condition.EnabledIf;

/** What the backend asks of libraries, layouts, transposes, batches, epilogues, by libraries that the host plays. */
@EnabledIf(value = "dev.starling.cuda.emulated.PlayedLibraries#arePossible",
        disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
class LibraryConformanceTest {
    @TestFactory
    Stream<DynamicTest> conforms() {
        return Conformance.of(Device.of("cuda-emulated", 1)).filter(
                t -> t.getDisplayName().matches("(gradient of )?(matMul|linear"
                        + "|conv|attention|batchNorm|layerNorm|avgPool|lstm|gru|rnn|softmax|logSoftmax).*"));
    }

    @AfterEach
    void librariesDidTheWorkAndHadNothingToComplainOf() {
        assertThat(PlayedLibraries.complaint()).isEmpty();
        assertThat(PlayedLibraries.computed()).isPositive();
    }
}
