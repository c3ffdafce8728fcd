package dev.starling.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.tensor.spi.Form;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** NPY files against the bytes that NumPy 2.4 writes, and malformed files. */
class NpyFileTest {
    private static final String VERSION_1 = "934e554d505901007600";
    private static final String VERSION_2 = "934e554d5059020074000000";
    private static final String VERSION_3 = "934e554d5059030074000000";
    /** The output of numpy.savez_compressed(f, w=arange(3) as f4, step=int64(7)). */
    private static final String ARCHIVE =
            "UEsDBC0AAAAIAAAAIQC2jIZT//////////8FABQAdy5ucHkBABAAjAAAAAAAAABLAAAAAAAAAJvsF+obEMnIUMZQrZ"
            + "6SWpxcpG6loG6TZqKuo6Cell9UUpSYF59flJIKEndLzClOBYoXZyQWpAL5GsY6mjoKtQoUAC4GMGiwBxIOAFBLAwQt"
            + "AAAACAAAACEAI7jwbP//////////CAAUAHN0ZXAubnB5AQAQAIgAAAAAAAAARgAAAAAAAACb7BfqGxDJyFDGUK2ekl"
            + "qcXKRupaBuk2mhrqOgnpZfVFKUmBefX5SSChJ3S8wpTgWKF2ckFqQC+RqaOgq1ChQBLnYGCAAAUEsBAi0DLQAAAAgA"
            + "AAAhALaMhlNLAAAAjAAAAAUAAAAAAAAAAAAAAIABAAAAAHcubnB5UEsBAi0DLQAAAAgAAAAhACO48GxGAAAAiAAAAA"
            + "gAAAAAAAAAAAAAAIABggAAAHN0ZXAubnB5UEsFBgAAAAACAAIAaQAAAAIBAAAAAA==";

    @TempDir
    private Path directory;
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open("test");
    }

    @AfterEach
    void close() {
        scope.close();
    }

    /** Returns the bytes of a file whose start, header and elements are laid out as NumPy does. */
    private static byte[] bytes(String start, String header, String elements) {
        String text = header + " ".repeat(128 - start.length() / 2 - header.length() - 1) + "\n";
        String hex = start + HexFormat.of().formatHex(text.getBytes(StandardCharsets.ISO_8859_1)) + elements;
        return HexFormat.of().parseHex(hex);
    }

    private static String header(String descr, boolean fortran, String shape) {
        return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape
                + ", }";
    }

    private Path file(byte[] bytes) throws IOException {
        return Files.write(directory.resolve("x.npy"), bytes);
    }

    private void check(byte[] bytes, DType dtype, String shape, double... elements) throws IOException {
        Tensor x = NpyFile.read(file(bytes));
        assertThat(x.dtype()).isEqualTo(dtype);
        assertThat(x.shape()).hasToString(shape);
        assertThat(x.isContiguous()).isTrue();
        assertThat(x.toDoubles()).containsExactly(elements);
    }

    @Test
    void readsWhatNumPyWrites() throws IOException {
        check(bytes(VERSION_1, header("<f4", false, "(2, 3)"), "000000000000003f0000803f0000c03f0000004000002040"),
                DType.F32, "[2, 3]", 0, 0.5, 1, 1.5, 2, 2.5);
        check(bytes(VERSION_1, header(">f8", true, "(2, 3)"), "c0040000000000003fe0000000000000bff80000000000003ff8"
                + "000000000000bfe00000000000004004000000000000"), DType.F64, "[2, 3]", -2.5, -1.5, -0.5, 0.5,
                1.5, 2.5);
        check(bytes(VERSION_1, header("<i4", false, "(2, 3)"), "fdfffffffeffffffffffffff000000000100000002000000"),
                DType.I32, "[2, 3]", -3, -2, -1, 0, 1, 2);
        check(bytes(VERSION_1, header("|b1", false, "(2, 3)"), "000100010001"), DType.BOOL, "[2, 3]", 0, 1, 0, 1, 0, 1);
        check(bytes(VERSION_1, header("|u1", false, "(2, 3)"), "00326496c8fa"), DType.U8, "[2, 3]", 0, 50, 100,
                150, 200,
                250);
        check(bytes(VERSION_1, header("<f2", false, "()"), "003e"), DType.F16, "[]", 1.5);
        check(bytes(VERSION_1, header(">f2", false, "(2,)"), "3c004000"), DType.F16, "[2]", 1, 2);
        check(bytes(VERSION_1, header("<i8", false, "(0, 3)"), ""), DType.I64, "[0, 3]");
        check(bytes(VERSION_2, header("|i1", false, "(2, 3)"), "000102030405"), DType.I8, "[2, 3]", 0, 1, 2, 3, 4, 5);
        check(bytes(VERSION_3, header(">i4", false, "(2, 3)"), "000000000000000100000002000000030000000400000005"),
                DType.I32, "[2, 3]", 0, 1, 2, 3, 4, 5);
        check(bytes(VERSION_1, header("|u1", true, "(2, 3, 4)"), "000c04100814010d05110915020e06120a16030f07130b17"),
                DType.U8, "[2, 3, 4]", counted(24));
    }

    private static double[] counted(int n) {
        double[] numbers = new double[n];
        Arrays.setAll(numbers, i -> i);
        return numbers;
    }

    @Test
    void writesTheBytesThatNumPyWrites() throws IOException {
        Path file = directory.resolve("y.npy");
        NpyFile.write(file, Tensor.of(new float[] {0, 1.5f, 0.5f, 2, 1, 2.5f}, 3, 2).t());
        assertThat(Files.readAllBytes(file)).isEqualTo(bytes(VERSION_1, header("<f4", false, "(2, 3)"),
                "000000000000003f0000803f0000c03f0000004000002040"));
        NpyFile.write(file, Tensor.of(new boolean[] {false, true, false, true, false, true}, 2, 3));
        assertThat(Files.readAllBytes(file))
                .isEqualTo(bytes(VERSION_1, header("|b1", false, "(2, 3)"), "000100010001"));
        NpyFile.write(file, Tensor.scalar(1.5).to(DType.F16));
        assertThat(Files.readAllBytes(file)).isEqualTo(bytes(VERSION_1, header("<f2", false, "()"), "003e"));
        NpyFile.write(file, Tensor.zeros(0, 3).to(DType.I64));
        assertThat(Files.readAllBytes(file)).isEqualTo(bytes(VERSION_1, header("<i8", false, "(0, 3)"), ""));
        try (var entries = Files.list(directory)) {
            assertThat(entries).containsExactly(file);
        }
    }

    @Test
    void readsArchives() throws IOException {
        Path file = Files.write(directory.resolve("x.npz"), Base64.getDecoder().decode(ARCHIVE));
        Map<String, Tensor> tensors = NpyFile.readArchive(file);
        assertThat(tensors).containsOnlyKeys("w", "step");
        assertThat(tensors.get("w").toFloats()).containsExactly(0, 1, 2);
        assertThat(tensors.get("step").itemLong()).isEqualTo(7);
        Path broken = Files.write(directory.resolve("y.npz"), new byte[100]);
        assertThatThrownBy(() -> NpyFile.readArchive(broken)).isInstanceOf(TensorException.class)
                .hasMessageContaining("y.npz");
    }

    /** Every third bit of the archive, in turn. */
    @Test
    void noFlippedBitOfAnArchiveChangesItsNumbers() throws IOException {
        byte[] intact = Base64.getDecoder().decode(ARCHIVE);
        int refused = 0;
        for (int i = 8 * intact.length - 1; i >= 0; i -= 3) {
            byte[] flipped = intact.clone();
            flipped[i / 8] ^= (byte) (1 << i % 8);
            Path file = Files.write(directory.resolve("flipped.npz"), flipped);
            try {
                for (Map.Entry<String, Tensor> read : NpyFile.readArchive(file).entrySet()) {
                    assertThat(read.getValue().toDoubles()).as("bit %d", i)
                            .isIn(new double[] {0, 1, 2}, new double[] {7});
                }
            } catch (TensorException e) {
                assertThat(e).as("bit %d", i).hasMessageContaining("flipped.npz");
                refused++;
            }
        }
        assertThat(refused).isGreaterThan(500);
    }

    @Test
    void namesAreUniqueInArchives() throws IOException {
        byte[] array = Files.readAllBytes(write(Tensor.ones(2)));
        Path file = directory.resolve("twice.npz");
        try (ZipOutputStream zip = new ZipOutputStream(Files.newOutputStream(file))) {
            for (String name : new String[] {"a.npy", "a"}) {
                zip.putNextEntry(new ZipEntry(name));
                zip.write(array);
            }
        }
        assertThatThrownBy(() -> NpyFile.readArchive(file)).isInstanceOf(TensorException.class)
                .hasMessageContaining("two arrays of the name a");
    }

    /** Else a small file could request any amount of memory. */
    @Test
    void anArchiveThatStatesMoreThanItCanHoldIsATypedError() throws IOException {
        Path file = directory.resolve("forged.npz");
        try (ZipOutputStream zip = new ZipOutputStream(Files.newOutputStream(file))) {
            zip.putNextEntry(new ZipEntry("x.npy"));
            zip.write(bytes(VERSION_1, header("|u1", false, "(1073741824,)"), ""));
        }
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
        int entry = bytes.getInt(bytes.capacity() - 6);
        bytes.putInt(entry + 24, 128 + 1073741824);
        Files.write(file, bytes.array());
        assertThatThrownBy(() -> NpyFile.readArchive(file)).isInstanceOfSatisfying(TensorException.class, e -> {
            assertThat(e.problem()).isEqualTo(TensorException.Problem.DATA);
            assertThat(e).hasMessageContainingAll("forged.npz!x.npy", "1073741952");
        });
    }

    /** Many entries of the directory at the archive's end stand for the same compressed bytes. */
    @Test
    void entriesThatShareBytesCountOnceEach() throws IOException {
        Path file = directory.resolve("shared.npz");
        try (ZipOutputStream zip = new ZipOutputStream(Files.newOutputStream(file))) {
            zip.putNextEntry(new ZipEntry("a.npy"));
            zip.write(bytes(VERSION_1, header("|u1", false, "(1000000,)"), ""));
            zip.write(new byte[1_000_000]);
        }
        ByteBuffer single = ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
        int end = single.capacity() - 22;
        int first = single.getInt(end + 16);
        int size = end - first;
        int count = 20;
        ByteBuffer shared = ByteBuffer.allocate(single.capacity() + (count - 1) * size).order(ByteOrder.LITTLE_ENDIAN);
        shared.put(single.array(), 0, end);
        for (int i = 1; i < count; i++) {
            int at = shared.position();
            shared.put(single.array(), first, size);
            shared.put(at + 46, (byte) ('a' + i));
        }
        int newEnd = shared.position();
        shared.put(single.array(), end, 22);
        shared.putShort(newEnd + 8, (short) count);
        shared.putShort(newEnd + 10, (short) count);
        shared.putInt(newEnd + 12, count * size);
        Files.write(file, shared.array());
        assertThatThrownBy(() -> NpyFile.readArchive(file)).isInstanceOf(TensorException.class)
                .hasMessageContainingAll("shared.npz!", "states a size of 1000128 bytes");
    }

    @Test
    void kernelsMayKeepPackedCopiesOfWhatWasRead() throws IOException {
        Tensor x = NpyFile.read(write(Tensor.ones(2)));
        Form.Key use = new Form.Key(0, new long[] {1}, new long[] {2});
        assertThat(x.storage().isReused(use, 1)).isFalse();
        assertThat(x.storage().isReused(use, 1)).isTrue();
    }

    private Path write(Tensor tensor) throws IOException {
        Path file = directory.resolve("array.npy");
        NpyFile.write(file, tensor);
        return file;
    }

    @Test
    void aFailedWriteLeavesTheOldFileAndNothingElse() throws IOException {
        Path file = file(new byte[] {1, 2, 3});
        assertThatThrownBy(() -> NpyFile.write(file, Tensor.ones(2).to(DType.BF16)))
                .isInstanceOfSatisfying(TensorException.class,
                        e -> assertThat(e.problem()).isEqualTo(TensorException.Problem.DTYPE))
                .hasMessageContaining("to(DType.F32)");
        assertThat(Files.readAllBytes(file)).containsExactly(1, 2, 3);
        Path occupied = Files.createDirectory(directory.resolve("taken"));
        Files.write(occupied.resolve("child"), new byte[1]);
        assertThatThrownBy(() -> NpyFile.write(occupied, Tensor.ones(2))).isInstanceOf(IOException.class);
        assertThatThrownBy(() -> NpyFile.write(directory.resolve("absent/x.npy"), Tensor.ones(2)))
                .isInstanceOf(NoSuchFileException.class);
        try (var entries = Files.list(directory)) {
            assertThat(entries).containsExactlyInAnyOrder(file, occupied);
        }
    }

    @Test
    void writesThroughALink() throws IOException {
        Path file = Files.createFile(Files.createDirectory(directory.resolve("elsewhere")).resolve("x.npy"));
        Path link = Files.createSymbolicLink(directory.resolve("link.npy"), file);
        NpyFile.write(link, Tensor.ones(2));
        assertThat(link).isSymbolicLink();
        assertThat(NpyFile.read(file).toFloats()).containsExactly(1, 1);
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void neitherReadsNorReplacesAPipe() throws Exception {
        Path pipe = directory.resolve("pipe");
        assertThat(new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor()).isZero();
        assertThatThrownBy(() -> NpyFile.write(pipe, Tensor.ones(2))).isInstanceOf(IOException.class)
                .hasMessageContainingAll(pipe.toString(), "a directory, a pipe or a device", "name a file");
        assertThat(Files.exists(pipe) && !Files.isRegularFile(pipe)).isTrue();
        assertTimeoutPreemptively(Duration.ofSeconds(20), () -> {
            assertThatThrownBy(() -> NpyFile.read(pipe)).isInstanceOf(TensorException.class)
                    .hasMessageContainingAll(pipe.toString(), "a pipe", "write what a pipe contains to");
            assertThatThrownBy(() -> NpyFile.readArchive(pipe)).isInstanceOf(TensorException.class)
                    .hasMessageContainingAll(pipe.toString(), "a pipe", "write what a pipe contains to");
        });
    }

    @Test
    void namesTheFileOfAnErrorOfTheSystem() {
        assertThatThrownBy(() -> NpyFile.read(directory)).hasMessageContaining(directory.toString());
        assertThatThrownBy(() -> NpyFile.readArchive(directory)).hasMessageContaining(directory.toString());
        // The system refuses to read the first bytes of this file.
        Path memory = Path.of("/proc/self/mem");
        assumeTrue(Files.isReadable(memory), "this system does not show the memory of a process as a file");
        assertThatThrownBy(() -> NpyFile.read(memory)).isInstanceOf(IOException.class)
                .hasMessageStartingWith(memory + ": ");
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", "{", "{}", "[]", "{'descr': '<f4'}", "x", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-6,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'more': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} 1", "{'descr' '<f4'}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,,3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,6)}",
        "{'descr': 'O', 'fortran_order': False, 'shape': (6,)}",
        "{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '|f4', 'fortran_order': False, 'shape': (6,)}",
        "{'descr': '<U6', 'fortran_order': False, 'shape': ()}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}", "{'descr': '', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (7,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}",
    })
    void hostileHeadersAreTypedErrors(String header) throws IOException {
        Path file = file(bytes(VERSION_1, header, "00".repeat(24)));
        assertThatThrownBy(() -> NpyFile.read(file)).isInstanceOfSatisfying(TensorException.class, e -> {
            assertThat(e.problem()).isEqualTo(TensorException.Problem.DATA);
            assertThat(e.op()).contains(file.toString());
            assertThat(e.remedy()).isNotBlank();
        });
    }

    @Test
    void refusesRecordsOfNamedFields() throws IOException {
        String header = "{'descr': [('a', '<f4'), ('b', '<i8')], 'fortran_order': False, 'shape': (2,), }";
        Path file = file(bytes(VERSION_1, header, "00".repeat(24)));
        assertThatThrownBy(() -> NpyFile.read(file)).isInstanceOf(TensorException.class)
                .hasMessageContainingAll("records of named fields", "numpy.save(file, array['name'])");
    }

    @Test
    void everyTruncationIsATypedError() throws IOException {
        byte[] whole = bytes(VERSION_1, header("<f4", false, "(2, 3)"), "00".repeat(24));
        for (int length = 0; length < whole.length; length++) {
            Path file = file(Arrays.copyOf(whole, length));
            assertThatThrownBy(() -> NpyFile.read(file)).as("cut to " + length).isInstanceOf(TensorException.class);
        }
    }

    @ParameterizedTest
    @CsvSource({"0,00", "6,04", "6,00", "7,01", "9,ff", "128,02"})
    void corruptBytesAreTypedErrors(int place, String value) throws IOException {
        byte[] bytes = bytes(VERSION_1, header("|b1", false, "(2, 3)"), "000100010001");
        bytes[place] = HexFormat.of().parseHex(value)[0];
        Path file = file(bytes);
        assertThatThrownBy(() -> NpyFile.read(file)).isInstanceOf(TensorException.class);
    }

    @Test
    void roundTripsEveryTypeThatNumPyHas() throws IOException {
        for (DType dtype : List.of(DType.F32, DType.F64, DType.F16, DType.I64, DType.I32, DType.I8, DType.U8,
                DType.BOOL)) {
            Tensor x = Tensor.arange(30).sub(dtype == DType.U8 ? 0 : 15).to(dtype).reshape(2, 3, 5).flip(1).t();
            Path file = directory.resolve(dtype + ".npy");
            NpyFile.write(file, x);
            assertThat(NpyFile.read(file)).hasToString(x.toString());
        }
    }
}
