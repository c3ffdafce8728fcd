package dev.starling.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.spi.BackendProvider;
import java.io.File;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** How devices are found. */
@Timeout(60)
class DeviceTest {
    private static final String CLASS_PATH = System.getProperty("java.class.path");

    @TempDir
    Path directory;

    /** What the child process runs. */
    static final class Main {
        private Main() {
        }

        public static void main(String[] arguments) {
            try {
                Tensor.zeros(1);
            } catch (TensorException e) {
                System.out.println(e.getMessage());
            }
        }
    }

    @Test
    void namesTheFlagIfTheJvmDeniesNativeAccess() throws Exception {
        Path output = directory.resolve("output");
        Process child = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--illegal-native-access=deny", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", CLASS_PATH,
                Main.class.getName()).redirectErrorStream(true).redirectOutput(output.toFile()).start();
        try {
            assertThat(child.waitFor(50, TimeUnit.SECONDS)).isTrue();
        } finally {
            child.destroyForcibly();
        }
        assertThat(output).content().contains("denies access to native memory",
                "start Java with --enable-native-access=ALL-UNNAMED");
    }

    @Test
    void namesOnlyArtifactsThatExistForATypeWithoutBackend() {
        assertThatThrownBy(() -> Device.of("cuda", 0).backend()).hasMessageContaining("add dev.starling:starling-cuda");
        assertThatThrownBy(() -> Device.of("gpu", 0).backend()).hasMessageContaining("no backend of type gpu")
                .hasMessageContaining("use cpu, cuda or reference").hasMessageNotContaining("starling-gpu");
    }

    @Test
    void saysWhatIsMissingInAJarThatWasMergedWithoutServices() throws Exception {
        List<URL> places = new ArrayList<>();
        for (String place : CLASS_PATH.split(File.pathSeparator)) {
            places.add(Path.of(place).toUri().toURL());
        }
        try (URLClassLoader merged = new URLClassLoader(places.toArray(URL[]::new),
                ClassLoader.getPlatformClassLoader()) {
            @Override
            public Enumeration<URL> findResources(String name) throws IOException {
                return name.startsWith("META-INF/services/") ? Collections.emptyEnumeration()
                        : super.findResources(name);
            }
        }) {
            Class<?> device = merged.loadClass(Device.class.getName());
            Object cpu = device.getMethod("cpu").invoke(null);
            assertThatThrownBy(() -> device.getMethod("backend").invoke(cpu)).rootCause()
                    .hasMessageContaining("merge the files META-INF/services/" + BackendProvider.class.getName())
                    .hasMessageNotContaining("starling-cpu");
        }
    }
}
