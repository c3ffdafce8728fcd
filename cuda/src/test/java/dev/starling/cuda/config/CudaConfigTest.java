package dev.starling.cuda.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.TensorException;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CudaConfigTest {
    private static CudaConfig of(String property, String value) {
        return CudaConfig.of(Map.of(property, value)::get);
    }

    @Test
    void hasTheDocumentedDefaults() {
        CudaConfig config = CudaConfig.of(name -> null);
        assertThat(config.cudnn()).containsExactly(CudnnFamily.values());
        assertThat(config.omittedEpilogues()).isEmpty();
        assertThat(config.autotuneLimit()).isEqualTo(Duration.ofMinutes(1));
        assertThat(config.cache()).isTrue();
        assertThat(config.nvtx()).isEqualTo("false");
        assertThat(config.tf32() || config.nondeterministic() || config.autotune() || config.synchronous()).isFalse();
    }

    @Test
    void readsEachProperty() {
        assertThat(of("starling.cuda.cudnn", "Attention , recurrence").cudnn())
                .containsExactly(CudnnFamily.ATTENTION, CudnnFamily.RECURRENCE);
        assertThat(of("starling.cuda.cudnn", "").cudnn()).isEmpty();
        assertThat(of("starling.cuda.epilogues.omitted", "relu, gelu_kept").omittedEpilogues())
                .containsExactly(ProductEpilogue.RELU, ProductEpilogue.GELU_KEPT);
        assertThat(of("starling.cuda.tf32", "TRUE").tf32()).isTrue();
        assertThat(of("starling.cuda.nondeterministic", "true").nondeterministic()).isTrue();
        assertThat(of("starling.cuda.autotune", "true").autotune()).isTrue();
        assertThat(of("starling.cuda.autotune.seconds", "5").autotuneLimit()).isEqualTo(Duration.ofSeconds(5));
        assertThat(of("starling.cuda.synchronous", "true").synchronous()).isTrue();
        assertThat(of("starling.cuda.cache", "false").cache()).isFalse();
        assertThat(of("starling.nvtx", "libnvtx.so").nvtx()).isEqualTo("libnvtx.so");
    }

    @ParameterizedTest
    @CsvSource({"starling.cuda.tf32, yes, use true or false", "starling.cuda.autotune.seconds, -1, a number of seconds",
        "starling.cuda.cudnn, pooling, 'convolution, attention, recurrence'",
        "starling.cuda.epilogues.omitted, nothing, column_sums"})
    void namesThePropertyAndItsValidValues(String property, String value, String valid) {
        assertThatThrownBy(() -> of(property, value)).isInstanceOf(TensorException.class)
                .hasMessageContaining(property).hasMessageContaining("'" + value + "'").hasMessageContaining(valid);
    }

    @Test
    void refusesUnknownProperties() {
        System.setProperty("starling.cuda.tf23", "true");
        try {
            assertThatThrownBy(CudaConfig::read).isInstanceOf(TensorException.class)
                    .hasMessageContaining("starling.cuda.tf23: does not exist")
                    .hasMessageContaining("autotune.seconds");
        } finally {
            System.clearProperty("starling.cuda.tf23");
        }
    }
}
