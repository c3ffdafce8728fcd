package dev.starling.study;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

class CommandTest {
    private final StringWriter err = new StringWriter();

    private int execute(String... arguments) {
        CommandLine line = StudyCommand.commandLine();
        line.setErr(new PrintWriter(err));
        return line.execute(arguments);
    }

    @Test
    void listsTheRows() {
        assertThat(execute("cifar10", "--rows", "ring-2,ring-9")).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(err.toString()).contains("there is no row \"ring-9\"; choose from single, ring-2, ring-4, ps-async, "
                + "ps-stale, gossip-4, spark-2, gpu, messages");
    }

    @Test
    void reportsMissingOptions() {
        assertThat(execute("cifar10", "--resume")).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(err.toString()).contains("--resume continues the file of --json: name it");
        assertThat(execute("cifar10", "--chart", "chart.gif")).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(err.toString()).contains("--chart must end in .svg or .png, got chart.gif");
        assertThat(execute("cifar10", "--data", "absent", "--chart", "pom.xml/chart.svg"))
                .isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(err.toString()).contains("--chart needs a directory that can be written, got pom.xml/chart.svg");
        assertThat(execute("cifar10", "--goal", "100")).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(execute("cifar10", "--limit", "Infinity", "--data", "absent")).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(err.toString()).contains("--limit must be above 0 and at most 1000000 minutes, got Infinity");
        assertThat(execute()).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(err.toString()).contains("Name what to train on: cifar10.");
    }

    @Test
    void refusesAPageWithoutAPlaceForTheTableBeforeItMeasures(@TempDir Path directory) throws Exception {
        Path page = Files.writeString(directory.resolve("page.md"), "notes\n");
        assertThat(execute("cifar10", "--quick", "--rows", "gpu", "--data", directory.toString(), "--markdown",
                page.toString())).isEqualTo(1);
        assertThat(err.toString()).contains("page.md: expected a table, or the lines <!-- study -->");
    }

    @Test
    void doesNotMixRowsOfAnotherRecipe(@TempDir Path directory) {
        Path file = directory.resolve("known.json");
        Json.write(file, new Result("2026-01-02", Machine.here(), 0.7, new Recipe(10, 4, 1, 5, 1, 5, 1), List.of(),
                List.of()));
        assertThat(execute("cifar10", "--quick", "--json", file.toString(), "--resume")).isEqualTo(1);
        assertThat(err.toString()).contains("another machine, goal or recipe").contains("leave out --resume");
    }
}
