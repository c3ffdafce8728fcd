package dev.starling.cuda.gpu;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

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

    @Test
    void loadsNoStaticLibrary(@TempDir Path toolkit) throws IOException {
        for (String name : List.of("libnvrtc-builtins.so", "libnvrtc-builtins.so.13.1", "nvrtc-builtins64_131.dll",
                "libnvrtc-builtins_static.a", "libnvrtc_static.a", "libnvrtc.so.13")) {
            Files.createFile(toolkit.resolve(name));
        }
        assertThat(Nvrtc.builtins(toolkit)).extracting(file -> file.getFileName().toString())
                .containsExactlyInAnyOrder("libnvrtc-builtins.so", "libnvrtc-builtins.so.13.1",
                        "nvrtc-builtins64_131.dll");
    }
}
