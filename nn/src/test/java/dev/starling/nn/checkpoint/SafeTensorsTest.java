package dev.starling.nn.checkpoint;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class SafeTensorsTest {
    @TempDir
    Path directory;

    private Path file(String header, int dataBytes) throws IOException {
        byte[] json = header.getBytes(StandardCharsets.UTF_8);
        ByteBuffer bytes = ByteBuffer.allocate(8 + json.length + dataBytes).order(ByteOrder.LITTLE_ENDIAN)
                .putLong(json.length).put(json);
        for (int i = 0; bytes.hasRemaining(); i++) {
            bytes.put((byte) i);
        }
        return Files.write(directory.resolve("t.safetensors"), bytes.array());
    }

    /** Reads a file whose layout was written by hand after the description of the format. */
    @Test
    void readsTheFormat() throws IOException {
        String header = "{\"__metadata__\":{\"format\":\"pt\"},"
                + "\"b\" : {\"shape\":[2],\"dtype\":\"I16_NOT\",\"data_offsets\":[0,4]}}";
        Path path = file(header.replace("I16_NOT", "BF16").replace("\"b\"", "\"\\u0062\\n\""), 4);
        try (Scope scope = Scope.open(); SafeTensors tensors = SafeTensors.open(path)) {
            assertThat(tensors.metadata()).containsExactly(Map.entry("format", "pt"));
            assertThat(tensors.names()).containsExactly("b\n");
            // 00 01 and 02 03 as the upper halves of 0x01000000 and 0x03020000.
            assertThat(tensors.tensor("b\n").toFloats()).containsExactly(Float.intBitsToFloat(0x01000000),
                    Float.intBitsToFloat(0x03020000));
        }
    }

    @Test
    void namesTheTypeThatItCannotRead() throws IOException {
        Path path = file("{\"b\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4);
        assertThatThrownBy(() -> SafeTensors.open(path)).hasMessageContaining("tensor \"b\" has the type \"I16\", "
                + "but only F32, F64, BF16, F16, I64, I32, I8, U8, BOOL can be read");
    }

    @Test
    void writesTheFormat() throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (Scope scope = Scope.open()) {
            Map<String, Parameter> tensors = new LinkedHashMap<>();
            tensors.put("u", Parameter.of(Tensor.of(new boolean[] {true, false, true})));
            tensors.put("f", Parameter.of(Tensor.of(new float[] {1, -2}, 1, 2)));
            SafeTensors.write(bytes -> {
                byte[] chunk = new byte[bytes.remaining()];
                bytes.get(chunk);
                out.write(chunk);
            }, tensors, Map.of("k", "v"));
        }
        ByteBuffer bytes = ByteBuffer.wrap(out.toByteArray()).order(ByteOrder.LITTLE_ENDIAN);
        int header = (int) bytes.getLong();
        assertThat(header % 8).isZero();
        assertThat(new String(bytes.array(), 8, header, StandardCharsets.UTF_8).strip()).isEqualTo(
                "{\"__metadata__\":{\"k\":\"v\"},\"f\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
                + "\"u\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[8,11]}}");
        assertThat(bytes.getFloat(8 + header)).isEqualTo(1);
        assertThat(bytes.getFloat(12 + header)).isEqualTo(-2);
        assertThat(bytes.array()).hasSize(8 + header + 11).endsWith(1, 0, 1);
    }

    /** The first is the key of the texts; the second would be written as "?". */
    @ParameterizedTest
    @ValueSource(strings = {"__metadata__", "half of a pair: \ud83d"})
    void refusesToWriteANameThatItWouldNotRead(String name) {
        try (Parameter weight = Parameter.of(Tensor.of(new float[] {1, 2}))) {
            assertThatThrownBy(() -> SafeTensors.bytes(Map.of(name, weight), Map.of()))
                    .isInstanceOf(CheckpointException.class).hasMessageContaining(Json.quoted(name))
                    .hasMessageContaining("another name");
            assertThatThrownBy(() -> SafeTensors.write(directory.resolve("t"), Map.of(name, weight), Map.of()))
                    .isInstanceOf(CheckpointException.class).hasMessageContaining(Json.quoted(name));
            assertThat(directory).isEmptyDirectory();
        }
    }

    /** A user would replace or delete an intact file. */
    @Test
    void doesNotBlameTheFileIfTheThreadIsInterruptedOrTheFileClosed() {
        Path path = directory.resolve("t.safetensors");
        try (Scope scope = Scope.open(); Parameter weight = Parameter.of(Tensor.of(new float[] {1, 2}))) {
            Map<String, Parameter> tensors = Map.of("w", weight);
            SafeTensors.write(path, tensors, Map.of());
            SafeTensors closed = SafeTensors.open(path);
            closed.close();
            assertThatThrownBy(() -> closed.tensor("w")).isInstanceOf(CheckpointException.class)
                    .hasMessageContaining("keep the file open").hasMessageNotContaining("replace");
            Path manifest = Checkpoint.save(directory, 1, tensors, Map.of());
            for (ThrowingCallable use : List.<ThrowingCallable>of(() -> SafeTensors.open(path),
                    () -> SafeTensors.write(path, tensors, Map.of()), () -> Checkpoint.open(manifest))) {
                Thread.currentThread().interrupt();
                assertThatThrownBy(use).isInstanceOf(CheckpointException.class)
                        .hasMessageContaining("the thread is interrupted").hasMessageNotContaining("delete");
                assertThat(Thread.interrupted()).isTrue();
            }
        }
    }

    @Test
    void refusesToWriteAHeaderThatItWouldNotRead() throws IOException {
        Path path = directory.resolve("texts.safetensors");
        SafeTensors.write(path, Map.of(), Map.of("k", "v"));
        byte[] before = Files.readAllBytes(path);
        String text = "x".repeat(1 << 20);
        Map<String, String> texts = new LinkedHashMap<>();
        for (int i = 0; i < 96; i++) {
            texts.put("k" + i, text);
        }
        assertThatThrownBy(() -> SafeTensors.write(path, Map.of(), texts)).isInstanceOf(CheckpointException.class)
                .hasMessageContaining("at most 100000000").hasMessageContaining("shorter texts");
        assertThat(path).hasBinaryContent(before);
        assertThat(directory.toFile().list()).hasSize(1);
    }

    /**
     * A file, an array, a channel and off-heap memory contain the same bytes, and reading returns the tensors
     * unchanged.
     */
    @ParameterizedTest
    @EnumSource(DType.class)
    void writesTheSameToMemoryAndChannelsAsToAFile(DType dtype) throws IOException {
        Path path = directory.resolve("same.safetensors");
        try (Scope scope = Scope.open(); Arena arena = Arena.ofConfined()) {
            Map<String, Parameter> all = new LinkedHashMap<>();
            all.put("some", Parameter.of(Generator.seeded(1).normal(3, 5).mul(3).to(dtype)));
            all.put("empty", Parameter.of(Tensor.full(dtype, 1, 0, 4)));
            Map<String, String> texts = Map.of("k", "\u00e4 \"v\"");
            SafeTensors.write(path, all, texts);
            byte[] bytes = SafeTensors.bytes(all, texts);
            assertThat(bytes).isEqualTo(Files.readAllBytes(path));
            Path through = directory.resolve("channel");
            try (FileChannel channel = FileChannel.open(through, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
                SafeTensors.write(channel, all, texts);
            }
            assertThat(through).hasBinaryContent(bytes);
            MemorySegment outside = arena.allocate(bytes.length).copyFrom(MemorySegment.ofArray(bytes));
            for (SafeTensors tensors : List.of(SafeTensors.of(bytes), SafeTensors.of(outside))) {
                assertThat(tensors.metadata()).isEqualTo(texts);
                assertThat(tensors.tensor("some").toDoubles()).isEqualTo(all.get("some").value().toDoubles());
                assertThat(tensors.tensor("empty").shape()).isEqualTo(all.get("empty").shape());
                tensors.close();
            }
        }
    }

    @ParameterizedTest
    @EnumSource(DType.class)
    void restoresEveryType(DType dtype) {
        Path path = directory.resolve("all.safetensors");
        try (Scope scope = Scope.open()) {
            Tensor values = Generator.seeded(1).normal(3, 0, 5).to(dtype);
            Tensor some = Generator.seeded(1).normal(3, 5).mul(3).to(dtype);
            Tensor scalar = Tensor.full(dtype, 1);
            SafeTensors.write(path, Map.of("empty", Parameter.of(values), "some", Parameter.of(some), "t",
                    Parameter.of(some.t()), "scalar", Parameter.of(scalar)), Map.of());
            try (SafeTensors tensors = SafeTensors.open(path)) {
                assertThat(tensors.tensor("empty").spec()).isEqualTo(values.spec());
                assertThat(tensors.tensor("some").spec()).isEqualTo(some.spec());
                assertThat(tensors.tensor("some").toDoubles()).isEqualTo(some.toDoubles());
                assertThat(tensors.tensor("t").toDoubles()).isEqualTo(some.t().toDoubles());
                assertThat(tensors.tensor("scalar").item()).isEqualTo(scalar.item());
                assertThatThrownBy(() -> tensors.tensor("other")).isInstanceOf(CheckpointException.class);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "",
        "[]",
        "{} {}",
        "{\"a\":1}",
        "{\"a\":{}}",
        "{\"__metadata__\":{\"k\":1},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[\"2\"],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,16]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                + "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                + "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387906],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,0],\"data_offsets\":[0,0]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[0,9223372036854775807],\"data_offsets\":[0,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1152921504606846976,0],\"data_offsets\":[0,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}",
        "{\"a\":[[[[[[[[[[[[[[[[[[[[[[",
        "{\"a\\x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
    })
    void refusesAHostileHeader(String header) throws IOException {
        Path path = file(header, 8);
        assertThatThrownBy(() -> SafeTensors.open(path)).isInstanceOf(CheckpointException.class)
                .hasMessageContaining("t.safetensors").hasMessageContaining("intact copy");
        byte[] bytes = Files.readAllBytes(path);
        assertThatThrownBy(() -> SafeTensors.of(bytes)).isInstanceOf(CheckpointException.class)
                .hasMessageContaining("tensors in memory").hasMessageContaining("intact copy");
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 1, 1000, 100_000_001, Long.MAX_VALUE, -1, Long.MIN_VALUE})
    void refusesAnImpossibleHeaderLength(long length) throws IOException {
        Path path = file("{}", 0);
        byte[] bytes = Files.readAllBytes(path);
        ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).putLong(0, length);
        Files.write(path, bytes);
        assertThatThrownBy(() -> SafeTensors.open(path)).isInstanceOf(CheckpointException.class);
        assertThatThrownBy(() -> SafeTensors.of(bytes)).isInstanceOf(CheckpointException.class);
        assertThatThrownBy(() -> SafeTensors.of(new byte[5])).hasMessageContaining("5 bytes");
        Files.write(path, new byte[5]);
        assertThatThrownBy(() -> SafeTensors.open(path)).hasMessageContaining("5 bytes");
        Files.delete(path);
        assertThatThrownBy(() -> SafeTensors.open(path)).isInstanceOf(CheckpointException.class);
    }

    /** After random damage to the header, the file is either refused or completely readable. */
    @Test
    void refusesOrReadsDamagedHeaders() throws IOException {
        String header = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                + "\"b\":{\"dtype\":\"U8\",\"shape\":[4,2],\"data_offsets\":[8,16]}}";
        Random random = new Random(1);
        int refused = 0;
        for (int i = 0; i < 3000; i++) {
            char[] damaged = header.toCharArray();
            for (int k = random.nextInt(3); k >= 0; k--) {
                damaged[random.nextInt(damaged.length)] = header.charAt(random.nextInt(damaged.length));
            }
            Path path = file(new String(damaged), 16);
            try (Scope scope = Scope.open(); SafeTensors tensors = SafeTensors.open(path)) {
                for (String name : tensors.names()) {
                    assertThat(tensors.tensor(name).spec()).isEqualTo(tensors.spec(name));
                }
            } catch (CheckpointException e) {
                refused++;
            }
        }
        assertThat(refused).isBetween(2000, 2999);
    }
}
