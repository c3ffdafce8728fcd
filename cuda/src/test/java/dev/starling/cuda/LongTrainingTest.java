package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.Device;
import java.awt.image.BufferedImage;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import javax.imageio.ImageIO;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

/** Short runs on an emulated GPU of what {@code gpu-check} runs for long on a real one. */
@EnabledIf(value = "dev.starling.cuda.emulated.Emulation#isAvailable", disabledReason = "needs g++ on x86-64")
class LongTrainingTest {
    private static final Device DEVICE = Device.of("cuda-emulated", 0);

    @Test
    void trainsAlongTheCpusCurve(@TempDir Path pictures) throws IOException {
        assertThat(Parity.runTiny(DEVICE, pictures)).isTrue();
        BufferedImage picture = ImageIO.read(pictures.resolve("curves-mnist.png").toFile());
        // There are three curves, and later ones are drawn over earlier ones.
        assertThat(Arrays.stream(picture.getRGB(0, 0, picture.getWidth(), picture.getHeight(), null, 0,
                picture.getWidth())).distinct().count()).isGreaterThan(3);
    }

    @Test
    void noticesACurveThatDiverges() {
        double[] cpu = {2, 1.9, 1.8, 1.7, 1.6, 1.5, 1.4, 1.3, 1.2, 1.1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        assertThat(Parity.difference(cpu, cpu.clone())).isNull();
        double[] early = cpu.clone();
        early[3] += 0.03;
        assertThat(Parity.difference(cpu, early)).contains("step 3");
        double[] late = cpu.clone();
        late[12] += 0.5;
        assertThat(Parity.difference(cpu, late)).isNull();
        late[15] += 0.6;
        assertThat(Parity.difference(cpu, late)).contains("mean from step 10");
        early[3] = Double.NaN;
        assertThat(Parity.difference(cpu, early)).contains("step 3");
    }

    @Test
    @EnabledOnOs(value = OS.LINUX, disabledReason = "resident memory is read from /proc")
    void usesConstantDeviceMemory() {
        // Resident memory is not checked: other tests in the process change it.
        assertThat(Endurance.train(DEVICE, 40, 8, false)).hasSize(10).satisfies(readings -> {
            Endurance.Reading first = readings.get(1);
            Endurance.Reading last = readings.getLast();
            assertThat(last.live()).isEqualTo(first.live());
            assertThat(last.requests()).isEqualTo(first.requests());
        });
    }

    @Test
    void noticesGrowth() {
        Endurance.Reading first = new Endurance.Reading(10, 100, 5, 1000, 10_000);
        assertThat(first.growthTo(new Endurance.Reading(20, 100, 5, 1000, 10_100))).isNull();
        assertThat(first.growthTo(new Endurance.Reading(20, 101, 5, 1000, 10_000))).contains("live device memory");
        assertThat(first.growthTo(new Endurance.Reading(20, 100, 6, 1000, 10_000))).contains("made 1 further requests");
        assertThat(first.growthTo(new Endurance.Reading(20, 100, 5, 999, 10_000))).contains("free memory");
        assertThat(first.growthTo(new Endurance.Reading(20, 100, 5, 1000, 10_300))).contains("resident");
    }
}
