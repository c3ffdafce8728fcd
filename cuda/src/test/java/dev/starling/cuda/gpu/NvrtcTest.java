package dev.starling.cuda.gpu;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/** What a compiler compiles for. */
class NvrtcTest {
    @Test
    void compilesForTheGpuWhereTheCompilerKnowsIt() {
        assertThat(Nvrtc.target("sm_90", 75, 80, 90, 100)).isEqualTo("sm_90");
    }

    @Test
    void compilesForTheNewestOlderArchitectureWhereItDoesNot() {
        assertThat(Nvrtc.target("sm_130", 75, 90, 121, 100)).isEqualTo("compute_121");
        assertThat(Nvrtc.target("sm_110", 75, 90, 121, 100)).isEqualTo("compute_100");
    }

    /** Let the compiler say what is wrong. */
    @Test
    void keepsWhatIsTooOld() {
        assertThat(Nvrtc.target("sm_70", 75, 80)).isEqualTo("sm_70");
    }
}
