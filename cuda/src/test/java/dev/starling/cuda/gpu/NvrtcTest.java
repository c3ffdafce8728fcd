package dev.starling.cuda.gpu;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/** The target of a compilation. */
class NvrtcTest {
    @Test
    void compilesForTheGpuIfTheCompilerKnowsIt() {
        assertThat(Nvrtc.target("sm_90", 75, 80, 90, 100)).isEqualTo("sm_90");
    }

    @Test
    void compilesForTheNewestOlderArchitectureOtherwise() {
        assertThat(Nvrtc.target("sm_130", 75, 90, 121, 100)).isEqualTo("compute_121");
        assertThat(Nvrtc.target("sm_110", 75, 90, 121, 100)).isEqualTo("compute_100");
    }

    /** The compiler then reports the error. */
    @Test
    void keepsAnArchitectureThatIsTooOld() {
        assertThat(Nvrtc.target("sm_70", 75, 80)).isEqualTo("sm_70");
    }
}
