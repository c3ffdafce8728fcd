package dev.starling.nn.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import dev.starling.tensor.TensorException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.zip.GZIPOutputStream;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Readers of IDX and CIFAR files: what they read, and their errors for invalid files. */
class DataFileTest {
    @TempDir
    Path dir;

    @Test
    void readsPlainAndGzippedIdx() throws IOException {
        byte[] elements = random(3 * 4 * 5);
        byte[] idx = idx(0x08, new int[] {3, 4, 5}, elements);
        for (Path file : List.of(write("plain", idx), write("zipped", gzip(idx)))) {
            IdxFile read = IdxFile.read(file);
            assertThat(read.dims()).containsExactly(3, 4, 5);
            assertThat(read.data()).isEqualTo(elements);
        }
    }

    @Test
    void readsAnIdxFileWithoutElements() throws IOException {
        IdxFile read = IdxFile.read(write("none", idx(0x08, new int[] {0, 28, 28}, new byte[0])));
        assertThat(read.dims()).containsExactly(0, 28, 28);
        assertThat(read.data()).isEmpty();
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void refusesAPipeInsteadOfWaitingForIt() throws Exception {
        Path pipe = dir.resolve("pipe");
        assertThat(new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor()).isZero();
        assertTimeoutPreemptively(Duration.ofSeconds(20), () -> {
            refuses(() -> IdxFile.read(pipe), "pipe", "write what a pipe contains to");
            refuses(() -> TarGz.extract(pipe, dir, Set.of("a"), 1), "pipe", "write what a pipe contains to");
        });
    }

    /** Reads a file in a process of its own. */
    static final class Probe {
        private Probe() {
        }

        public static void main(String[] arguments) {
            try {
                IdxFile.read(Path.of(arguments[0]));
            } catch (DataException e) {
                System.out.println(e.getMessage());
            }
        }
    }

    @Test
    void namesAFileThatTheHeapCannotHold() throws Exception {
        Path file = write("large", idx(0x08, new int[] {50_000_000}, new byte[50_000_000]));
        Process process = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xmx32m", "-cp", System.getProperty("java.class.path"), Probe.class.getName(), file.toString())
                .redirectErrorStream(true).start();
        assertThat(new String(process.getInputStream().readAllBytes())).startsWith(file + ": ")
                .contains("50000000 bytes", "limited to ", "-Xmx");
    }

    @Test
    void pairsImagesWithLabels() throws IOException {
        byte[] pixels = random(2 * 3 * 4);
        LabelledImages images = IdxFile.readImages(write("images", idx(0x08, new int[] {2, 3, 4}, pixels)),
            write("labels", idx(0x08, new int[] {2}, new byte[] {7, 9})), 10);
        assertThat(images.count()).isEqualTo(2);
        assertThat(List.of(images.channels(), images.height(), images.width())).containsExactly(1, 3, 4);
        assertThat(List.of(images.label(0), images.label(1))).containsExactly(7, 9);
        assertThat(images.offset(1)).isEqualTo(12);
        assertThat(images.pixels()).isEqualTo(pixels);
    }

    @Test
    void refusesAFileThatIsNotIdxOfBytes() throws IOException {
        refuses(() -> IdxFile.read(write("f", idx(0x0d, new int[] {1}, new byte[4]))), "f", "0x00000d01");
        refuses(() -> IdxFile.read(write("f", "<html>not found</html>".getBytes())), "f", "0x3c68746d");
        refuses(() -> IdxFile.read(write("f", new byte[] {0, 0, 8, 0})), "f", "0x00000800");
    }

    @Test
    void refusesAnIdxFileWhoseLengthDoesNotMatchItsHeader() throws IOException {
        byte[] idx = idx(0x08, new int[] {10, 10}, new byte[100]);
        refuses(() -> IdxFile.read(write("f", Arrays.copyOf(idx, 111))), "f", "dimensions [10, 10]");
        refuses(() -> IdxFile.read(write("f", Arrays.copyOf(idx, 7))), "f", "ends early");
        refuses(() -> IdxFile.read(write("f", new byte[0])), "f", "ends early");
        refuses(() -> IdxFile.read(write("f", Arrays.copyOf(idx, 113))), "f", "more bytes");
        refuses(() -> IdxFile.read(write("f", gzip(Arrays.copyOf(idx, 111)))), "f", "ends early, after 99");
        refuses(() -> IdxFile.read(write("f", gzip(Arrays.copyOf(idx, 113)))), "f", "more bytes");
    }

    @Test
    void refusesDimensionsThatDoNotFitBeforeAllocatingMemory() throws IOException {
        int[][] shapes = {{-1}, {Integer.MAX_VALUE}, {65536, 65536}, {Integer.MAX_VALUE, Integer.MAX_VALUE, 4}};
        for (int[] dims : shapes) {
            byte[] idx = idx(0x08, dims, new byte[10]);
            refuses(() -> IdxFile.read(write("f", idx)), "f", "dimensions");
            refuses(() -> IdxFile.read(write("f", gzip(idx))), "f", "dimensions");
        }
    }

    @Test
    void refusesTruncatedAndCorruptGzip() throws IOException {
        byte[] zipped = gzip(idx(0x08, new int[] {1000}, random(1000)));
        refuses(() -> IdxFile.read(write("f", Arrays.copyOf(zipped, zipped.length / 2))), "f", "ends early");
        refuses(() -> IdxFile.read(write("f", Arrays.copyOf(zipped, zipped.length - 6))), "f", "ends early");
        byte[] flipped = zipped.clone();
        flipped[zipped.length - 8] ^= 1; // the checksum in the trailer
        refuses(() -> IdxFile.read(write("f", flipped)), "f", "intact gzip data");
        byte[] noDeflate = zipped.clone();
        Arrays.fill(noDeflate, 10, 40, (byte) 0xff);
        refuses(() -> IdxFile.read(write("f", noDeflate)), "f", "intact gzip data");
    }

    @Test
    void refusesAMissingFileAndADirectory() {
        refuses(() -> IdxFile.read(dir.resolve("absent")), "absent", "NoSuchFileException");
        refuses(() -> IdxFile.read(dir), dir.getFileName().toString(), "readable");
        refuses(() -> CifarFile.read(List.of(dir.resolve("absent")), 1), "absent", "NoSuchFileException");
    }

    @Test
    void refusesImagesAndLabelsThatDoNotBelongTogether() throws IOException {
        Path images = write("images", idx(0x08, new int[] {2, 3, 4}, new byte[24]));
        Path three = write("labels", idx(0x08, new int[] {3}, new byte[3]));
        refuses(() -> IdxFile.readImages(images, three, 10), "labels", "3 labels");
        refuses(() -> IdxFile.readImages(three, images, 10), "labels", "swapped");
        Path wrong = write("labels", idx(0x08, new int[] {2}, new byte[] {1, 10}));
        refuses(() -> IdxFile.readImages(images, wrong, 10), "labels", "label 10 for image 1");
        Path negative = write("labels", idx(0x08, new int[] {2}, new byte[] {-1, 1}));
        refuses(() -> IdxFile.readImages(images, negative, 10), "labels", "label 255 for image 0");
        Path flat = write("images", idx(0x08, new int[] {2, 0, 4}, new byte[0]));
        refuses(() -> IdxFile.readImages(flat, wrong, 10), "images", "[2, 0, 4]");
    }

    @Test
    void readsCifarRecordsOfSeveralFilesInOrder() throws IOException {
        byte[] first = cifar(1, 9);
        byte[] second = cifar(0, 5);
        LabelledImages images = CifarFile.read(List.of(write("a", first), write("b", second)), 2);
        assertThat(images.labels()).containsExactly(1, 9, 0, 5);
        assertThat(images.imageSize()).isEqualTo(3072);
        for (int i = 0; i < 4; i++) {
            byte[] file = i < 2 ? first : second;
            int from = i % 2 * 3073 + 1;
            assertThat(Arrays.copyOfRange(images.pixels(), images.offset(i), images.offset(i) + 3072))
                .isEqualTo(Arrays.copyOfRange(file, from, from + 3072));
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 3072, 3073, 6145, 6147, 9219})
    void refusesACifarFileOfAnotherLength(int length) throws IOException {
        Path file = write("batch.bin", new byte[length]);
        refuses(() -> CifarFile.read(List.of(file), 2), "batch.bin", "found " + length + " bytes");
    }

    @Test
    void refusesACifarLabelAboveNine() throws IOException {
        Path file = write("batch.bin", cifar(9, 10));
        refuses(() -> CifarFile.read(List.of(file), 2), "batch.bin", "label 10 in record 1");
    }

    @Test
    void refusesImagesThatDoNotMatchTheirLabels() {
        assertThatThrownBy(() -> new LabelledImages(1, 2, 2, 10, new byte[7], new byte[2]))
            .isInstanceOf(TensorException.class).hasMessageContaining("2x1x2x2").hasMessageContaining("7");
        assertThatThrownBy(() -> new LabelledImages(1, 1, 1, 2, new byte[2], new byte[] {1, 2}))
            .isInstanceOf(TensorException.class).hasMessageContaining("2 at image 1");
    }

    private static void refuses(ThrowingCallable read, String file, String reason) {
        assertThatThrownBy(read).isInstanceOfSatisfying(DataException.class, e -> {
            assertThat(e.path().getFileName()).hasToString(file);
            assertThat(e.remedy()).isNotBlank();
            assertThat(e).hasMessageContaining(e.path().toString()).hasMessageContaining(reason)
                .hasMessageContaining(e.remedy());
            assertThat(e.getMessage()).doesNotContain("\n");
        });
    }

    private Path write(String name, byte[] bytes) throws IOException {
        return Files.write(dir.resolve(name), bytes);
    }

    private static byte[] idx(int type, int[] dims, byte[] elements) {
        ByteBuffer file = ByteBuffer.allocate(4 + 4 * dims.length + elements.length);
        file.putInt(type << 8 | dims.length);
        for (int dim : dims) {
            file.putInt(dim);
        }
        return file.put(elements).array();
    }

    private static byte[] cifar(int... labels) {
        byte[] file = random(labels.length * 3073);
        for (int i = 0; i < labels.length; i++) {
            file[i * 3073] = (byte) labels[i];
        }
        return file;
    }

    private static byte[] random(int length) {
        byte[] bytes = new byte[length];
        new Random(length).nextBytes(bytes);
        return bytes;
    }

    private static byte[] gzip(byte[] plain) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (GZIPOutputStream out = new GZIPOutputStream(bytes)) {
            out.write(plain);
        }
        return bytes.toByteArray();
    }
}
