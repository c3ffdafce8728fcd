package dev.starling.study;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.data.CifarFile;
import dev.starling.nn.data.DataException;
import dev.starling.nn.data.LabelledImages;
import dev.starling.study.Result.Outcome;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Small trainings in real processes, on images whose class is their colour. */
class StudyTest {
    private static final Recipe RECIPE = new Recipe(960, 4, 3, 48, 1e-2, 480, 60);
    private static final double GOAL = 0.5;

    @TempDir
    private Path directory;

    private final ByteArrayOutputStream shown = new ByteArrayOutputStream();

    private static LabelledImages colours(int count, long seed) {
        Random random = new Random(seed);
        int plane = CifarFile.SIDE * CifarFile.SIDE;
        byte[] pixels = new byte[count * CifarFile.CHANNELS * plane];
        byte[] labels = new byte[count];
        for (int i = 0; i < count; i++) {
            labels[i] = (byte) random.nextInt(CifarFile.CLASSES);
            for (int c = 0; c < CifarFile.CHANNELS; c++) {
                int level = (labels[i] * (3 + 4 * c) % CifarFile.CLASSES) * 20 + 10;
                for (int p = 0; p < plane; p++) {
                    pixels[(i * CifarFile.CHANNELS + c) * plane + p] = (byte) (level + random.nextInt(40));
                }
            }
        }
        return new LabelledImages(CifarFile.CHANNELS, CifarFile.SIDE, CifarFile.SIDE, CifarFile.CLASSES, pixels,
                labels);
    }

    private Study study() {
        return new Study(colours(RECIPE.images(), 1), colours(100, 2), RECIPE, directory,
                new PrintStream(shown, true, StandardCharsets.UTF_8));
    }

    private static Result nothing() {
        return new Result("2026-01-02", new Machine(2, "a processor", 16, null, "25"), GOAL, RECIPE, List.of(),
                List.of());
    }

    private void reachesTheGoal(Outcome outcome) {
        assertThat(outcome.problem()).as(outcome.setup() + ": " + shown).isNull();
        Run run = outcome.runs().getFirst();
        assertThat(run.points()).as(outcome.toString()).hasSizeGreaterThanOrEqualTo(4);
        assertThat(run.points().getLast().images()).isBetween(2600L, 2880L);
        assertThat(run.secondsTo(GOAL)).as(outcome.toString()).isPresent();
        assertThat(run.secondsTo(GOAL).getAsDouble()).isPositive().isLessThanOrEqualTo(run.wholeSeconds());
        assertThat(run.imagesPerSecond() * run.trainingSeconds()).isBetween(2600.0, 2881.0);
    }

    @Test
    void measuresProcessesAndKeepsKnownRuns() throws Exception {
        List<Result> reported = new ArrayList<>();
        Result result = study().measure(List.of(Setup.RING_2, Setup.GPU), 1, nothing(), reported::add);
        reachesTheGoal(result.outcome(Setup.RING_2));
        assertThat(result.outcome(Setup.GPU)).isEqualTo(new Outcome(Setup.GPU, List.of(), "no GPU on this machine"));
        assertThat(reported).hasSize(2).endsWith(result);
        assertThat(shown.toString(StandardCharsets.UTF_8)).contains("ring, 2 processes, run 1 of 1")
                .contains("images/s");
        assertThat(study().measure(List.of(Setup.RING_2), 1, result, reported::add)).isSameAs(result);
    }

    @Test
    void continuesAfterARowThatFails() throws Exception {
        Study study = study();
        Files.delete(directory.resolve("train.bin"));
        Result result = study.measure(List.of(Setup.SINGLE, Setup.GPU), 2, nothing(), _ -> { });
        assertThat(result.outcome(Setup.SINGLE).runs()).isEmpty();
        assertThat(result.outcome(Setup.SINGLE).problem()).startsWith("failed: ").contains("train.bin");
        assertThat(result.outcome(Setup.GPU).problem()).isEqualTo("no GPU on this machine");
    }

    @Test
    void namesTheReasonWhyImagesCannotBeWritten() throws Exception {
        Path file = Files.writeString(directory.resolve("file"), "no directory").resolve("train.bin");
        assertThatThrownBy(() -> Images.write(file, colours(1, 1), 1)).isInstanceOf(DataException.class)
                .hasMessageContaining(file.toString()).hasMessageContaining("FileSystemException")
                .hasMessageContaining("-Djava.io.tmpdir=DIR");
    }

    /** Spark reads an escaped space as three characters. */
    @Test
    void namesAFolderForSparkWithoutEscapes() {
        assertThat(SparkMember.address(Path.of("/my files/100 %"))).isEqualTo("file:///my files/100 %");
    }

    @Test
    @Tag("stress")
    void measuresEverySetup() throws Exception {
        List<Setup> setups = List.of(Setup.SINGLE, Setup.RING_4, Setup.PS_ASYNC, Setup.PS_STALE, Setup.GOSSIP_4,
                Setup.SPARK_2);
        Result result = study().measure(setups, 1, nothing(), _ -> { });
        assertThat(result.rows()).hasSameSizeAs(setups).allSatisfy(this::reachesTheGoal);
    }
}
