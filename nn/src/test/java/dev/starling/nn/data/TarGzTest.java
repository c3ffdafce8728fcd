package dev.starling.nn.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Stream;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Extraction from archives that the test writes block by block, and from one that the system's tar wrote. */
class TarGzTest {
    private static final Set<String> WANTED = Set.of("a.bin", "b.bin");

    @TempDir
    Path dir;
    private Path target;
    private final ByteArrayOutputStream tar = new ByteArrayOutputStream();

    @BeforeEach
    void make() {
        target = dir.resolve("target");
    }

    @Test
    void extractsOnlyTheRequestedFiles() throws IOException {
        member("set/", '5', 0, "");
        member("set/a.bin", '0', 5, "first");
        member("set/readme.html", '0', 700, "x".repeat(700));
        member("set/b.bin", (char) 0, 0, "");
        TarGz.extract(archive(true), target, WANTED, 1000);
        assertThat(target.resolve("a.bin")).hasContent("first");
        assertThat(target.resolve("b.bin")).isEmptyFile();
        assertThat(target.toFile().list()).containsExactlyInAnyOrder("a.bin", "b.bin");
    }

    @Test
    void readsArchivesOfTheSystemsTar() throws Exception {
        Path source = Files.createDirectories(dir.resolve("a-long-folder-name-".repeat(4)).resolve("in"));
        Files.writeString(source.resolve("a.bin"), "x".repeat(100_000));
        Files.writeString(source.resolve("b.bin"), "y");
        Path archive = dir.resolve("made.tar.gz");
        Process process = new ProcessBuilder("tar", "-czf", archive.toString(), "-C", dir.toString(),
            dir.relativize(source).toString()).inheritIO().start();
        assertThat(process.waitFor()).isZero();
        TarGz.extract(archive, target, WANTED, 200_000);
        assertThat(target.resolve("a.bin")).hasContent("x".repeat(100_000));
        assertThat(target.resolve("b.bin")).hasContent("y");
    }

    @Test
    void keepsEverythingInsideTheDirectory() throws IOException {
        member("../../a.bin", '0', 4, "evil");
        member("/tmp/b.bin", '0', 4, "evil");
        member("../c.bin", '0', 4, "evil");
        TarGz.extract(archive(true), target, WANTED, 1000);
        assertThat(target.toFile().list()).containsExactlyInAnyOrder("a.bin", "b.bin");
        assertThat(dir.toFile().list()).containsExactlyInAnyOrder("target", "archive.tar.gz");
    }

    @Test
    void doesNotExtractLinks() throws IOException {
        member("a.bin", '2', 0, "");
        member("b.bin", '1', 0, "");
        refuses(true, "an archive without");
        assertThat(target).isEmptyDirectory();
    }

    @Test
    void refusesMembersAboveTheLimit() throws IOException {
        member("a.bin", '0', 1001, "x".repeat(1001));
        refuses(true, "a.bin of 1001 bytes");
    }

    @Test
    void refusesToSkipMoreThanTheLimit() throws IOException {
        member("junk1", '0', 600, "x".repeat(600));
        member("junk2", '0', 600, "x".repeat(600));
        member("a.bin", '0', 1, "x");
        refuses(true, "junk2 of 600 bytes");
    }

    @Test
    void refusesTruncatedArchives() throws IOException {
        member("a.bin", '0', 700, "x".repeat(512)); // the member's second block is missing
        refuses(false, "intact .tar.gz");
        assertThat(target).isEmptyDirectory();
        tar.reset();
        member("a.bin", '0', 1, "x");
        refuses(false, "ends within a header");
        byte[] half = Files.readAllBytes(archive(true));
        Path cut = Files.write(dir.resolve("cut"), Arrays.copyOf(half, half.length / 2));
        assertThatThrownBy(() -> TarGz.extract(cut, target, WANTED, 1000)).isInstanceOf(DataException.class)
            .hasMessageContaining("intact .tar.gz");
    }

    @Test
    void readsTheChecksumAtTheArchivesEnd() throws IOException {
        member("a.bin", '0', 5, "first");
        member("b.bin", '0', 6, "second");
        byte[] bytes = Files.readAllBytes(archive(true));
        bytes[bytes.length - 8] ^= 1; // of the CRC-32, which the length follows
        Path damaged = Files.write(dir.resolve("damaged.tar.gz"), bytes);
        assertThatThrownBy(() -> TarGz.extract(damaged, target, WANTED, 1000)).isInstanceOf(DataException.class)
            .hasMessageContainingAll("damaged.tar.gz", "intact .tar.gz", "GZIP trailer");
        assertThat(target).isEmptyDirectory();
        // As is the rest of the archive, up to the limit.
        member("c.bin", '0', 20_000, "x".repeat(20_000));
        refuses(true, "bytes after the files");
        assertThat(target).isEmptyDirectory();
    }

    @Test
    void writesFilesThatOthersMayRead() throws IOException {
        member("a.bin", '0', 5, "first");
        member("b.bin", '0', 6, "second");
        TarGz.extract(archive(true), target, WANTED, 1000);
        assertThat(target.resolve("a.bin").toFile().canRead()).isTrue();
        assertThat(Files.getPosixFilePermissions(target.resolve("a.bin")))
            .isEqualTo(Files.getPosixFilePermissions(dir.resolve("archive.tar.gz")));
    }

    @Test
    void refusesADamagedHeader() throws IOException {
        member("a.bin", '0', 1, "x");
        byte[] bytes = tar.toByteArray();
        bytes[0] ^= 1;
        tar.reset();
        tar.write(bytes);
        refuses(true, "checksum");
        tar.reset();
        tar.write("this is no tar archive".repeat(40).getBytes(StandardCharsets.US_ASCII));
        refuses(true, "octal");
    }

    @Test
    void refusesAFileThatIsNotGzipOrIsMissing() throws IOException {
        Path text = Files.writeString(dir.resolve("text"), "not gzip");
        assertThatThrownBy(() -> TarGz.extract(text, target, WANTED, 1000)).isInstanceOf(DataException.class)
            .hasMessageContaining(text.toString()).hasMessageContaining("intact .tar.gz");
        assertThatThrownBy(() -> TarGz.extract(dir.resolve("absent"), target, WANTED, 1000))
            .isInstanceOf(DataException.class).hasMessageContaining("NoSuchFileException");
    }

    @Test
    void closesAFileThatIsNotGzip() throws IOException {
        Path descriptors = Path.of("/proc/self/fd");
        assumeTrue(Files.isDirectory(descriptors), "this system does not list the files of a process");
        Path text = Files.writeString(dir.resolve("text"), "not gzip").toRealPath();
        assertThatThrownBy(() -> TarGz.extract(text, target, WANTED, 1000)).isInstanceOf(DataException.class);
        try (Stream<Path> open = Files.list(descriptors)) {
            assertThat(open.map(TarGzTest::file)).doesNotContain(text);
        }
    }

    /** Returns the file of a descriptor, or an empty path if it is closed by now. */
    private static Path file(Path descriptor) {
        try {
            return Files.readSymbolicLink(descriptor);
        } catch (IOException e) {
            return Path.of("");
        }
    }

    private void refuses(boolean complete, String reason) throws IOException {
        Path archive = archive(complete);
        assertThatThrownBy(() -> TarGz.extract(archive, target, WANTED, 1000)).isInstanceOf(DataException.class)
            .hasMessageContaining(archive.toString()).hasMessageContaining(reason);
    }

    private Path archive(boolean complete) throws IOException {
        Path archive = dir.resolve("archive.tar.gz");
        try (GZIPOutputStream out = new GZIPOutputStream(Files.newOutputStream(archive))) {
            tar.writeTo(out);
            out.write(new byte[complete ? 1024 : 0]);
        }
        return archive;
    }

    private void member(String name, char type, int size, String content) throws IOException {
        byte[] header = new byte[512];
        put(header, 0, name);
        put(header, 124, String.format(Locale.ROOT, "%011o", size));
        put(header, 148, "        ");
        header[156] = (byte) type;
        put(header, 257, "ustar");
        int sum = 0;
        for (byte b : header) {
            sum += Byte.toUnsignedInt(b);
        }
        put(header, 148, String.format(Locale.ROOT, "%06o\0 ", sum));
        tar.write(header);
        byte[] bytes = content.getBytes(StandardCharsets.US_ASCII);
        tar.write(Arrays.copyOf(bytes, (bytes.length + 511) / 512 * 512));
    }

    private static void put(byte[] header, int at, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(bytes, 0, header, at, bytes.length);
    }
}
