package dev.starling.nn.checkpoint;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assumptions.assumeFalse;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.errors.PlainFile;
import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CheckpointTest {
    @TempDir
    Path directory;
    private Scope scope;
    private Parameter weight;

    @BeforeEach
    void open() {
        scope = Scope.open();
        weight = Parameter.of(Tensor.of(new float[] {1, 2, 3}));
    }

    @AfterEach
    void close() {
        weight.close();
        scope.close();
    }

    private void assertRestores(float... expected) {
        weight.set(Tensor.zeros(3));
        Checkpoint.latest(directory).orElseThrow().into(Map.of("w", weight));
        assertThat(weight.value().toFloats()).containsExactly(expected);
    }

    @Test
    void findsTheLatest() {
        assertThat(Checkpoint.latest(directory.resolve("absent"))).isEmpty();
        assertThat(Checkpoint.latest(directory)).isEmpty();
        Checkpoint.save(directory, 9, Map.of("w", weight), Map.of("epoch", "1"));
        weight.set(Tensor.of(new float[] {4, 5, 6}));
        Checkpoint.save(directory, 10, Map.of("w", weight), Map.of("epoch", "2 \"quoted\" \\ \u00e9\n"));
        Checkpoint latest = Checkpoint.latest(directory).orElseThrow();
        assertThat(latest.step()).isEqualTo(10);
        assertThat(latest.notes()).containsExactly(Map.entry("epoch", "2 \"quoted\" \\ \u00e9\n"));
        assertRestores(4, 5, 6);
    }

    /** Numbers of this locale have other digits than those of file names. */
    @Test
    void namesFilesAlikeInEveryLocale() {
        Locale before = Locale.getDefault();
        Locale.setDefault(Locale.forLanguageTag("ar-EG-u-nu-arab"));
        try {
            assertThat(Checkpoint.save(directory, 9, Map.of("w", weight), Map.of()))
                    .hasFileName("step-0000000009.json");
            assertThat(Part.name(9, 0xabc, 1)).isEqualTo("step-0000000009-00000abc-1.rows");
        } finally {
            Locale.setDefault(before);
        }
        assertThat(Checkpoint.latest(directory).orElseThrow().step()).isEqualTo(9);
    }

    @Test
    void replacesACheckpointOfTheSameStep() {
        Checkpoint.save(directory, 1, Map.of("w", weight), Map.of());
        weight.set(Tensor.of(new float[] {4, 5, 6}));
        Checkpoint.save(directory, 1, Map.of("w", weight), Map.of());
        assertRestores(4, 5, 6);
        Checkpoint.prune(directory, 1);
        assertRestores(4, 5, 6);
        assertThat(directory.toFile().list()).hasSize(2);
    }

    @ParameterizedTest
    @ValueSource(longs = {-1, Long.MIN_VALUE, 1_000_000_000_000_000_000L})
    void refusesAStepThatItWouldNotFind(long step) {
        assertThatThrownBy(() -> Checkpoint.save(directory, step, Map.of("w", weight), Map.of()))
                .isInstanceOf(CheckpointException.class).hasMessageContaining("got " + step);
        assertThat(directory).isEmptyDirectory();
        Checkpoint.save(directory, 999_999_999_999_999_999L, Map.of("w", weight), Map.of());
        assertThat(Checkpoint.latest(directory).orElseThrow().step()).isEqualTo(999_999_999_999_999_999L);
    }

    @Test
    void leavesOtherFilesAloneWhenPruning() throws IOException {
        for (int i = 1; i <= 5; i++) {
            Checkpoint.save(directory, i, Map.of("w", weight), Map.of("i", "" + i));
        }
        Files.writeString(directory.resolve("notes.txt"), "of the user");
        for (String end : List.of(".safetensors.tmp", ".safetensors.0123abcd.tmp", ".json.0123abcd.tmp",
                "-0123abcd.safetensors")) {
            Files.writeString(directory.resolve("step-0000000004" + end), "left by a crash");
        }
        Checkpoint.prune(directory, 2);
        assertThat(directory.toFile().list()).hasSize(5).contains("notes.txt", "step-0000000004.json",
                "step-0000000005.json");
    }

    /** Writes files as another process would write them. */
    private Parts parts(long step, int save, String... contents) throws IOException {
        List<Part> parts = new ArrayList<>();
        for (int i = 0; i < contents.length; i++) {
            parts.add(new Part(Part.name(step, save, i), contents[i].length(), "of " + contents[i]));
            Files.writeString(directory.resolve(parts.getLast().file()), contents[i]);
        }
        return () -> Optional.of(parts);
    }

    @Test
    void deletesPartsWithTheirCheckpoint() throws IOException {
        Parts first = parts(1, 0xabc, "one", "\"two\"");
        Checkpoint.save(directory, 1, Map.of("w", weight), Map.of(), first);
        assertThat(Checkpoint.latest(directory).orElseThrow().parts()).isEqualTo(first.await().orElseThrow())
                .extracting(Part::file).containsExactly("step-0000000001-00000abc-0.rows",
                "step-0000000001-00000abc-1.rows");
        // Saved again with fewer parts and the same weights.
        Checkpoint.save(directory, 1, Map.of("w", weight), Map.of(), parts(1, 0xdef, "three"));
        assertThat(Checkpoint.latest(directory).orElseThrow().parts()).hasSize(1);
        assertThat(directory.toFile().list()).hasSize(3);
        Checkpoint.save(directory, 2, Map.of("w", weight), Map.of(), parts(2, 1, "four"));
        Files.writeString(directory.resolve("step-0000000001-01234567-4.rows.tmp"), "left by a crash");
        Files.writeString(directory.resolve("step-0000000001-01234567-5.rows"), "left by a crash");
        Files.writeString(directory.resolve("step-0000000003-01234567-0.rows.tmp"), "being written");
        Checkpoint.prune(directory, 2);
        assertThat(directory.toFile().list()).hasSize(7);
        Checkpoint.prune(directory, 1);
        assertThat(directory.toFile().list()).hasSize(4).contains("step-0000000002-00000001-0.rows",
                "step-0000000003-01234567-0.rows.tmp");
        assertRestores(1, 2, 3);
    }

    @Test
    void doesNotExistWithoutAllItsParts() throws IOException {
        Checkpoint.save(directory, 1, Map.of("w", weight), Map.of(), parts(1, 1, "one"));
        assertThat(Checkpoint.save(directory, 2, Map.of("w", weight), Map.of(), Optional::empty)).isEmpty();
        CheckpointException failure = new CheckpointException(directory, "cannot be written", "do something", null);
        assertThatThrownBy(() -> Checkpoint.save(directory, 3, Map.of("w", weight), Map.of(), () -> {
            throw failure;
        })).isSameAs(failure);
        assertThat(Checkpoint.latest(directory).orElseThrow().step()).isEqualTo(1);
        try (CheckpointWriter writer = new CheckpointWriter(directory, 2)) {
            writer.save(4, Map.of("w", weight), Map.of(), Optional::empty);
            assertThat(writer.await()).isEmpty();
            writer.save(5, Map.of("w", weight), Map.of(), parts(5, 5, "five"));
            assertThat(writer.await()).contains(directory.resolve("step-0000000005.json"));
        }
        Path part = directory.resolve(Part.name(5, 5, 0));
        Files.writeString(part, "fiv");
        assertThatThrownBy(() -> Checkpoint.latest(directory)).isInstanceOf(CheckpointException.class)
                .hasMessageContaining(part.toString()).hasMessageContaining("has 3 bytes, the manifest says 4");
        Files.delete(part);
        assertThatThrownBy(() -> Checkpoint.latest(directory)).isInstanceOf(CheckpointException.class)
                .hasMessageContaining(part.toString()).hasMessageContaining("is missing; restore it, or delete");
        Files.writeString(directory.resolve("step-0000000009.json"), "{\"file\": \"f\", \"bytes\": 1, "
                + "\"sha256\": \"252f10c83610ebca1a059c0bae8255eba2f95be4d1d7bcfa89d7248a82d9f111\", "
                + "\"parts\": [{\"file\": \"../x\", \"bytes\": 1, \"checksum\": \"\"}]}");
        Files.writeString(directory.resolve("f"), "f");
        assertThatThrownBy(() -> Checkpoint.latest(directory)).isInstanceOf(CheckpointException.class)
                .hasMessageContaining("must contain file, bytes and checksum of each part");
    }

    /** Rank 0 was stopped while it saved step 2, and wakes up while its successor saves step 3. */
    @Test
    void leavesFilesOfItsSuccessorAloneAfterALateWakeUp() throws IOException {
        Checkpoint.save(directory, 1, Map.of("w", weight), Map.of());
        Checkpoint.save(directory, 2, Map.of("w", weight), Map.of());
        List<String> partial = List.of("step-0000000002.safetensors.0123abcd.tmp",
                "step-0000000002-0123abcd.safetensors", "step-0000000003.safetensors.0123abcd.tmp",
                "step-0000000003-0123abcd.safetensors", "step-0000000003.json.0123abcd.tmp");
        for (String name : partial) {
            Files.writeString(directory.resolve(name), "of the successor");
        }
        Checkpoint.save(directory, 2, Map.of("w", weight), Map.of());
        Checkpoint.prune(directory, 1);
        assertThat(directory.toFile().list()).containsAll(partial).hasSize(2 + partial.size());
        for (String name : partial) {
            assertThat(directory.resolve(name)).hasContent("of the successor");
        }
    }

    private static ByteBuffer bytes(String text) {
        return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
    }

    /** The second write of a file begins and ends while the first one is under way. */
    @Test
    void doesNotMixTwoWritesOfAFile() {
        Path file = directory.resolve("file");
        AtomicFile.write(file, sink -> {
            sink.write(bytes("the first, "));
            AtomicFile.write(file, other -> other.write(bytes("the second")));
            assertThat(file).hasContent("the second");
            sink.write(bytes("as a whole"));
        });
        assertThat(file).hasContent("the first, as a whole");
        assertThat(directory.toFile().list()).containsExactly("file");
    }

    /** Returns the temporary file of one of the next writes. */
    private static Path temporary(Path file, int writesFromNow) {
        String present = PlainFile.draft(file).getFileName().toString();
        int at = present.length() - "01234567.tmp".length();
        return file.resolveSibling(present.substring(0, at) + HexFormat.of().toHexDigits(HexFormat.fromHexDigits(
                present, at, at + 8) + writesFromNow) + ".tmp");
    }

    /** A second run with the same directory prunes what it takes for the remains of a failed save. */
    @Test
    void attributesADeletedDraftToAnotherRun() {
        Path manifest = directory.resolve("step-0000000001.json");
        assertThatThrownBy(() -> AtomicFile.write(manifest, sink -> {
            Checkpoint.save(directory, 2, Map.of("w", weight), Map.of());
            Checkpoint.prune(directory, 2, 2);
        })).isInstanceOf(CheckpointException.class).hasMessageContaining(manifest.toString())
                .hasMessageContaining("another process has deleted " + manifest.getFileName())
                .hasMessageEndingWith("give each run a directory of its own");
        assertRestores(1, 2, 3);
    }

    /** As above, but while the first run writes the tensors, before it asks for the length of their file. */
    @Test
    void attributesDeletedTensorsToAnotherRun() {
        assertThatThrownBy(() -> Checkpoint.save(directory, 1, new LinkedHashMap<>(Map.of("w", weight)) {
            @Override
            public Set<Map.Entry<String, Parameter>> entrySet() {
                try (Stream<Path> drafts = Files.list(directory)) {
                    for (Path draft : drafts.toList()) {
                        Files.delete(draft);
                    }
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
                return super.entrySet();
            }
        }, Map.of())).isInstanceOf(CheckpointException.class)
                .hasMessageContaining("another process has deleted step-0000000001.safetensors")
                .hasMessageEndingWith("give each run a directory of its own");
    }

    @Test
    void writesThroughALink() throws IOException {
        Path target = Files.createFile(Files.createDirectory(directory.resolve("elsewhere")).resolve("file"));
        Path link = Files.createSymbolicLink(directory.resolve("link"), target);
        AtomicFile.write(link, sink -> sink.write(bytes("new")));
        assertThat(link).isSymbolicLink();
        assertThat(target).hasContent("new");
        assertThat(target.getParent().toFile().list()).containsExactly("file");
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void neitherReadsNorReplacesAPipe() throws Exception {
        Path manifest = directory.resolve("step-0000000009.json");
        assertThat(new ProcessBuilder("mkfifo", manifest.toString()).start().waitFor()).isZero();
        assertThatThrownBy(() -> SafeTensors.write(manifest, Map.of("w", weight), Map.of()))
                .isInstanceOf(CheckpointException.class).hasMessageContainingAll(manifest.toString(),
                        "is a directory, a pipe or a device", "name a file");
        assertThat(Files.exists(manifest) && !Files.isRegularFile(manifest)).isTrue();
        assertTimeoutPreemptively(Duration.ofSeconds(20), () -> {
            assertThatThrownBy(() -> SafeTensors.open(manifest)).isInstanceOf(CheckpointException.class)
                    .hasMessageContainingAll(manifest.toString(), "a pipe", "write what a pipe contains to");
            assertThatThrownBy(() -> Checkpoint.latest(directory)).isInstanceOf(CheckpointException.class)
                    .hasMessageContainingAll(manifest.toString(), "a pipe");
            assertThatThrownBy(() -> Checkpoint.save(directory, 9, Map.of("w", weight), Map.of()))
                    .isInstanceOf(CheckpointException.class).hasMessageContainingAll(manifest.toString(), "a pipe");
            Checkpoint.prune(directory, 2);
        });
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void savesWhereFilesMayBeWrittenButNotListed() throws IOException {
        Path hidden = Files.createDirectory(directory.resolve("hidden"),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("-wx-wx-wx")));
        assumeFalse(Files.isReadable(hidden), "this user may read every directory");
        SafeTensors.write(hidden.resolve("w.safetensors"), Map.of("w", weight), Map.of());
        assertThat(hidden.resolve("w.safetensors")).isNotEmptyFile();
    }

    @Test
    void adviseOnWhatTheSystemRefuses() {
        for (Path refused : List.of(Path.of("/"), directory, Path.of(""))) {
            assertThatThrownBy(() -> SafeTensors.write(refused, Map.of("w", weight), Map.of()))
                    .isInstanceOf(CheckpointException.class).hasMessageContaining("name a file")
                    .hasMessageNotContaining("free some space");
        }
        Path tooLong = directory.resolve("workspace").resolve("x".repeat(300));
        assertThatThrownBy(() -> SafeTensors.write(tooLong, Map.of("w", weight), Map.of()))
                .isInstanceOf(CheckpointException.class).hasMessageContainingAll("too long", "check the name")
                .hasMessageNotContaining("free some space");
    }

    @Test
    void keepsThePreviousCheckpointOnAFullDisk() throws IOException {
        Path full = Path.of("/dev/full");
        assumeTrue(Files.exists(full), "this machine has no /dev/full, which is a disk without space");
        Checkpoint.save(directory, 1, Map.of("w", weight), Map.of());
        Files.createSymbolicLink(temporary(directory.resolve("step-0000000002.safetensors"), 1), full);
        assertThatThrownBy(() -> Checkpoint.save(directory, 2, Map.of("w", weight), Map.of()))
                .isInstanceOf(CheckpointException.class).hasMessageContaining("step-0000000002.json")
                .hasMessageContaining("No space left").hasMessageContaining("free some space");
        assertRestores(1, 2, 3);
        // Now the manifest, which is written second, cannot be written.
        Files.createSymbolicLink(temporary(directory.resolve("step-0000000003.json"), 2), full);
        assertThatThrownBy(() -> Checkpoint.save(directory, 3, Map.of("w", weight), Map.of()))
                .isInstanceOf(CheckpointException.class).hasMessageContaining("No space left");
        assertRestores(1, 2, 3);
        assertThat(Checkpoint.latest(directory).orElseThrow().step()).isEqualTo(1);
        assertThat(directory.toFile().list()).noneMatch(name -> name.endsWith(".tmp"));
        Checkpoint.save(directory, 4, Map.of("w", weight), Map.of());
        assertThat(Checkpoint.latest(directory).orElseThrow().step()).isEqualTo(4);
    }

    @Test
    void detectsEveryFlippedBit() throws IOException {
        Checkpoint.save(directory, 1, Map.of("w", weight), Map.of("epoch", "1"));
        for (String name : directory.toFile().list()) {
            Path file = directory.resolve(name);
            byte[] intact = Files.readAllBytes(file);
            for (int i = 0; i < intact.length; i++) {
                byte[] bytes = intact.clone();
                bytes[i] ^= (byte) (1 << i % 8);
                Files.write(file, bytes);
                boolean harmless = name.endsWith(".json") && bytes[i] <= ' ' && intact[i] <= ' ';
                if (!harmless) {
                    assertThatThrownBy(() -> Checkpoint.latest(directory)).as(name + " byte " + i)
                            .isInstanceOf(CheckpointException.class).hasMessageContaining(directory.toString());
                }
            }
            for (int length = 0; length < intact.length - 1; length++) {
                Files.write(file, Arrays.copyOf(intact, length));
                assertThatThrownBy(() -> Checkpoint.latest(directory)).as(name + " of " + length + " bytes")
                        .isInstanceOf(CheckpointException.class);
            }
            Files.write(file, intact);
        }
        assertRestores(1, 2, 3);
    }

    @Test
    void skipsDamagedCheckpointsIfThatIsAllowed() throws IOException {
        assertThat(Checkpoint.latestIntact(directory)).isEmpty();
        for (int step = 1; step <= 4; step++) {
            weight.set(Tensor.of(new float[] {step, 0, 0}));
            Checkpoint.save(directory, step, Map.of("w", weight), Map.of());
        }
        try (Stream<Path> files = Files.list(directory)) {
            Path data = files.filter(f -> f.getFileName().toString().matches("step-0+3-.*safetensors")).findFirst()
                    .orElseThrow();
            Files.write(data, new byte[] {1, 2, 3});
        }
        Path manifest = directory.resolve("step-0000000004.json");
        String whole = Files.readString(manifest);
        Files.writeString(manifest, whole.substring(0, whole.length() / 2));
        assertThatThrownBy(() -> Checkpoint.latest(directory)).isInstanceOf(CheckpointException.class)
                .hasMessageContaining("--skip-damaged");
        Checkpoint intact = Checkpoint.latestIntact(directory).orElseThrow();
        assertThat(intact.step()).isEqualTo(2);
        assertRestores(2, 0, 0);
        assertThat(directory.resolve("step-0000000003.json.damaged")).exists();
        assertThat(directory.resolve("step-0000000004.json.damaged")).exists();
    }

    @Test
    void findsACheckpointAtAnyTimeWhileARunSavesAndPrunes() throws Exception {
        Checkpoint.save(directory, 1, Map.of("w", weight), Map.of());
        FutureTask<Void> saving = new FutureTask<>(() -> {
            for (int step = 2; step <= 60; step++) {
                Checkpoint.save(directory, step, Map.of("w", weight), Map.of());
                Checkpoint.save(directory, step, Map.of("w", weight), Map.of("epoch", "over"));
                Checkpoint.prune(directory, 1, step);
            }
            return null;
        });
        Thread.ofPlatform().daemon().start(saving);
        long before = 0;
        while (!saving.isDone()) {
            long latest = Checkpoint.latest(directory).orElseThrow().step();
            long intact = Checkpoint.latestIntact(directory).orElseThrow().step();
            assertThat(latest).isBetween(before, intact);
            before = intact;
        }
        saving.get(1, TimeUnit.MINUTES);
        try (Stream<Path> files = Files.list(directory)) {
            assertThat(files).hasSize(2).noneMatch(file -> file.toString().endsWith(".damaged"));
        }
        assertThat(Checkpoint.latestIntact(directory).orElseThrow().step()).isEqualTo(60);
    }

    @Test
    void skipsAManifestThatIsNotText() throws IOException {
        Checkpoint.save(directory, 1, Map.of("w", weight), Map.of());
        Path manifest = Checkpoint.save(directory, 2, Map.of("w", weight), Map.of());
        byte[] bytes = Files.readAllBytes(manifest);
        bytes[3] = (byte) 0xff;
        Files.write(manifest, bytes);
        assertThatThrownBy(() -> Checkpoint.latest(directory)).isInstanceOf(CheckpointException.class)
                .hasMessageContaining("is malformed: it is not UTF-8");
        assertThat(Checkpoint.latestIntact(directory).orElseThrow().step()).isEqualTo(1);
    }

    /** As a run does that starts from the beginning in a directory that another run has used. */
    @Test
    void keepsTheCheckpointThatWasJustSavedBelowThoseOfAnotherRun() {
        for (int step : new int[] {100, 200}) {
            Checkpoint.save(directory, step, Map.of("w", weight), Map.of());
        }
        try (CheckpointWriter writer = new CheckpointWriter(directory, 2)) {
            for (int step = 1; step <= 2; step++) {
                writer.save(step, Map.of("w", weight), Map.of());
                assertThat(Checkpoint.open(writer.await().orElseThrow()).step()).isEqualTo(step);
            }
        }
        assertThat(directory.toFile().list()).hasSize(6).doesNotContain("step-0000000001.json");
        assertThat(Checkpoint.latest(directory).orElseThrow().step()).isEqualTo(200);
    }

    @Test
    void changesNoFileIfAllCheckpointsAreDamaged() throws IOException {
        Checkpoint.save(directory, 1, Map.of("w", weight), Map.of());
        Files.writeString(directory.resolve("step-0000000001.json"), "{");
        String[] before = directory.toFile().list();
        assertThatThrownBy(() -> Checkpoint.latestIntact(directory)).isInstanceOf(CheckpointException.class)
                .hasMessageContaining("step-0000000001.json").hasMessageContaining("has no intact checkpoint")
                .hasMessageNotContaining("--skip-damaged");
        assertThat(directory.toFile().list()).containsExactlyInAnyOrder(before);
    }

    @Test
    void refusesAManifestThatPointsElsewhere() throws IOException {
        Path manifest = Checkpoint.save(directory, 1, Map.of("w", weight), Map.of());
        Files.writeString(manifest, Files.readString(manifest).replace("step-", "../step-"));
        assertThatThrownBy(() -> Checkpoint.open(manifest)).isInstanceOf(CheckpointException.class);
    }

    @Test
    void changesNothingIfTheParametersDoNotMatch() {
        Checkpoint.save(directory, 1, Map.of("w", weight), Map.of());
        Checkpoint saved = Checkpoint.latest(directory).orElseThrow();
        Parameter other = Parameter.of(Tensor.ones(3));
        Parameter wide = Parameter.of(Tensor.ones(4));
        Parameter precise = Parameter.of(Tensor.full(DType.F64, 1, 3));
        assertThatThrownBy(() -> saved.into(Map.of("v",
                other))).hasMessageContaining("\"w\" that the model does not have");
        assertThatThrownBy(() -> saved.into(Map.of("w", other, "v",
                other))).hasMessageContaining("has no tensor \"v\"");
        assertThatThrownBy(() -> saved.into(Map.of("w", wide))).hasMessageContaining("f32[3]")
                .hasMessageContaining("f32[4]");
        assertThatThrownBy(() -> saved.into(Map.of("w", precise))).hasMessageContaining("f64[3]");
        assertThat(other.value().toFloats()).containsExactly(1, 1, 1);
    }

    // ---- saving in the background ----

    @Test
    void savesTheStateAtTheTimeOfTheCall() throws InterruptedException {
        try (CheckpointWriter writer = new CheckpointWriter(directory, 2)) {
            assertThat(writer.await()).isEmpty();
            for (int i = 1; i <= 4; i++) {
                weight.set(Tensor.full(DType.F32, i, 3));
                writer.save(i, Map.of("w", weight), Map.of("i", "" + i));
                weight.set(Tensor.zeros(3));
                assertThat(writer.await().orElseThrow()).hasFileName("step-000000000" + i + ".json");
                assertRestores(i, i, i);
            }
            assertThat(directory.toFile().list()).hasSize(4);
        }
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().equals("starling-checkpoint")) {
                // The thread has completed its work, but may still be running when await() returns.
                assertThat(thread.join(Duration.ofSeconds(5))).isTrue();
            }
        }
    }

    @Test
    void completesTheWriteWhenAnInterruptedThreadClosesIt() {
        CheckpointWriter writer = new CheckpointWriter(directory, 2);
        writer.save(1, Map.of("w", weight), Map.of(), () -> {
            LockSupport.parkNanos(Duration.ofMillis(200).toNanos());
            return Optional.of(List.of());
        });
        Thread.currentThread().interrupt();
        writer.close();
        assertThat(Thread.interrupted()).isTrue();
        assertRestores(1, 2, 3);
    }

    @Test
    void reportsAFailedWriteToTheWaitingCaller() throws IOException {
        Path file = Files.createFile(directory.resolve("file"));
        CheckpointWriter writer = new CheckpointWriter(file, 2);
        writer.save(1, Map.of("w", weight), Map.of());
        assertThatThrownBy(() -> writer.save(2, Map.of("w", weight), Map.of()))
                .isInstanceOf(CheckpointException.class);
        assertThatThrownBy(writer::await).isInstanceOf(CheckpointException.class).hasMessageContaining("file");
        assertThat(writer.await()).isEmpty();
        writer.close();
    }
}
