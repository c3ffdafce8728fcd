package dev.starling.nn.chart;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.data.DataException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PictureTest {
    /** A run that is cancelled while it draws its curve must still end. */
    @Test
    void keepsAnInterrupt(@TempDir Path directory) {
        Thread.currentThread().interrupt();
        Picture.write(directory.resolve("curve.png"), 300, 200, canvas -> new LineChart("title", "x", false)
                .line("line", "#000000", true, new double[] {1, 2}, new double[] {1, 2}).draw(canvas, 0, 0, 300, 200));
        assertThat(Thread.interrupted()).isTrue();
    }

    @Test
    void onlyImagesNeedTheModuleOfImages(@TempDir Path directory) throws Exception {
        Process process = new ProcessBuilder(ProcessHandle.current().info().command().orElseThrow(), "--limit-modules",
                "java.base", "-cp", System.getProperty("java.class.path"), PictureTest.class.getName(),
                directory.toString()).redirectErrorStream(true).start();
        try {
            assertThat(process.waitFor(50, TimeUnit.SECONDS)).isTrue();
            assertThat(new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8))
                    .contains("curve.svg: written").contains("expected a JDK that can draw text, found")
                    .contains("add the module java.desktop to a Java image that lacks it, or write .svg");
        } finally {
            process.destroyForcibly();
        }
    }

    /** Draws in both formats. */
    public static void main(String[] directory) {
        for (String name : new String[] {"curve.svg", "curve.png"}) {
            try {
                Picture.write(Path.of(directory[0], name), 30, 20, canvas -> canvas.box(0, 0, 30, 20, "#ffffff"));
                System.out.println(name + ": written");
            } catch (DataException e) {
                System.out.println(e.getMessage());
            }
        }
    }
}
