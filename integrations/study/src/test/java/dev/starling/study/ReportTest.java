package dev.starling.study;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.data.DataException;
import dev.starling.study.Result.Message;
import dev.starling.study.Result.Outcome;
import dev.starling.study.Run.Point;
import java.awt.image.BufferedImage;
import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import javax.imageio.ImageIO;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.w3c.dom.Document;
import org.w3c.dom.NodeList;

/** Tables, charts and files of a fixed result. */
class ReportTest {
    @TempDir
    private Path directory;

    private static Run run(long seed, double rate, double first, double last) {
        return new Run(seed, rate, 40, 3, 45, List.of(new Point(10_000, 20, first), new Point(20_000, 40, last)));
    }

    private static Result result() {
        return new Result("2026-01-02", new Machine(2, "A processor <2 GHz>", 16, null, "25"), 0.7,
                new Recipe(20_000, 24, 3, 96, 4e-3, 10_000, 600), List.of(
                new Outcome(Setup.SINGLE, List.of(run(1, 1000, 0.5, 0.75), run(2, 1200, 0.7, 0.8)), null),
                new Outcome(Setup.RING_4, List.of(run(1, 900, 0.5, 0.75), run(2, 910, 0.5, 0.65)), null),
                new Outcome(Setup.GPU, List.of(), "no GPU on this machine")),
                List.of(new Message("starling", 1024, 0.8), new Message("grpc", 1024, 180)));
    }

    @Test
    void showsMeansAndSpreadInTheTable() {
        String table = Table.markdown(result());
        assertThat(table).contains("2 processors (A processor <2 GHz>), 16 GiB, no GPU, JDK 25; 2026-01-02")
                .contains("time to 70 %")
                .contains("| one process | 1 | 1,100 (1,000–1,200) | 30.0 (20.0–40.0) s | 15,000 (10,000–20,000) | "
                        + "77.5 % | 2 |");
    }

    @Test
    void showsTheGoalAsItWasGiven() {
        for (String goal : List.of("70", "72.5", "99.95", "5", "57")) {
            Result result = new Result("2026-01-02", result().machine(), Double.parseDouble(goal) / 100,
                    result().recipe(), result().rows(), List.of());
            assertThat(Table.markdown(result)).contains("| time to " + goal + " % | images to " + goal + " % |");
            assertThat(Chart.of(result).svg()).contains("seconds to " + goal + " %");
        }
    }

    @Test
    void keepsAMessageOfSeveralLinesInItsCell() {
        Result result = result().with(new Outcome(Setup.GPU, List.of(), "failed: a|b\n at line 1\r\nc"));
        assertThat(Table.markdown(result)).contains("| – | failed: a/b at line 1 c | – | – | 0 |");
    }

    @Test
    void givesNoTimeForARowThatMissesTheGoal() {
        assertThat(Table.markdown(result()))
                .contains("| ring, 4 processes | 4 | 905 (900–910) | not reached by 1 of 2 | – | 70.0 % | 2 |")
                .contains("| one process, GPU | 1 | – | no GPU on this machine | – | – | 0 |");
    }

    @Test
    void writesTheSameTableInALocaleWithOtherDigits() {
        String table = Table.markdown(result());
        Locale before = Locale.getDefault();
        Locale.setDefault(Locale.forLanguageTag("ar-EG-u-nu-arab"));
        try {
            assertThat(Table.markdown(result())).isEqualTo(table);
        } finally {
            Locale.setDefault(before);
        }
    }

    @Test
    void putsMessagesBelow() {
        assertThat(Table.markdown(result())).contains("message of 1,024 bytes")
                .contains("| Starling, shared memory of the host | 0.80 µs | 0.40 µs |")
                .contains("| grpc-java, a unary call | 180 µs | 90.0 µs |");
    }

    @Test
    void replacesTheTableOfAPage() throws Exception {
        Path page = Files.writeString(directory.resolve("page.md"),
                "# `<!-- study -->`\n<!-- study -->\nold\n<!-- end of study -->\nend\n");
        Table.write(page, result());
        assertThat(page).hasContent("# `<!-- study -->`\n<!-- study -->\n" + Table.markdown(result())
                + "<!-- end of study -->\nend\n");
        Path fresh = directory.resolve("table.md");
        for (int i = 0; i < 2; i++) {
            Table.write(fresh, result());
            assertThat(fresh).hasContent(Table.markdown(result()));
        }
    }

    @Test
    void replacesTheTableOfAPageThatHasNothingElse() throws Exception {
        for (String newline : List.of("\n", "\r\n")) {
            Path page = Files.writeString(directory.resolve("page.md"), String.join(newline, "<!-- study -->", "old",
                    "<!-- end of study -->"));
            Table.write(page, result());
            assertThat(Files.readString(page)).isEqualTo("<!-- study -->" + newline
                    + Table.markdown(result()).replace("\n", newline) + "<!-- end of study -->");
        }
    }

    /** Until the new page is complete, the old one stays as it is. */
    @Test
    void replacesAPageAsAWhole() throws Exception {
        String text = "kept\n<!-- study -->\nold\n<!-- end of study -->\n";
        Path page = Files.writeString(directory.resolve("page.md"), text);
        Path before = Files.createLink(directory.resolve("before.md"), page);
        Path link = Files.createSymbolicLink(directory.resolve("link.md"), page);
        Table.write(link, result());
        assertThat(Files.readString(before)).isEqualTo(text);
        assertThat(Files.readString(page)).startsWith("kept\n<!-- study -->\nMachine: ");
        assertThat(link).isSymbolicLink();
        Path fresh = directory.resolve("new/folder/table.md");
        Table.write(fresh, result());
        assertThat(fresh).hasContent(Table.markdown(result()));
        assertThat(directory.toFile().list()).containsExactlyInAnyOrder("page.md", "before.md", "link.md", "new");
    }

    @Test
    void keepsAPageWithoutAPlaceForTheTable() throws Exception {
        for (String text : List.of("notes\n", "notes\n<!-- study -->\nmore\n", "Machine: a\n<!-- end of study -->\n",
                "<!-- end of study -->\n<!-- study -->\n")) {
            Path page = Files.writeString(directory.resolve("page.md"), text);
            assertThatThrownBy(() -> Table.write(page, result())).isInstanceOf(DataException.class)
                    .hasMessageContaining("page.md").hasMessageContaining("the lines <!-- study --> and <!-- end of "
                            + "study -->");
            assertThat(Files.readString(page)).isEqualTo(text);
        }
    }

    @Test
    void drawsWellFormedSvg() throws Exception {
        Document svg = DocumentBuilderFactory.newInstance().newDocumentBuilder()
                .parse(new ByteArrayInputStream(Chart.of(result()).svg().getBytes(StandardCharsets.UTF_8)));
        NodeList nodes = svg.getElementsByTagName("text");
        List<String> texts = new ArrayList<>();
        for (int i = 0; i < nodes.getLength(); i++) {
            texts.add(nodes.item(i).getTextContent());
        }
        assertThat(texts).contains("one process", "ring, 4 processes", "one process, GPU", "1,100", "905", "30.0",
                "not reached", "–", "images per second", "seconds to 70 %");
        assertThat(svg.getElementsByTagName("polyline").getLength()).isGreaterThanOrEqualTo(2);
    }

    @Test
    void drawsTheSameAsAnImage() throws Exception {
        Path file = directory.resolve("chart.png");
        Chart.of(result()).write(file);
        BufferedImage image = ImageIO.read(file.toFile());
        assertThat(image.getWidth()).isEqualTo(2160);
        // The bar of the first row.
        assertThat(image.getRGB(2 * 340, 2 * 70) & 0xFFFFFF).isEqualTo(0x333333);
    }

    @Test
    void keepsResultsInAFile() {
        Path file = directory.resolve("deep").resolve("result.json");
        Json.write(file, result());
        assertThat(Json.read(file, Result.class)).isEqualTo(result());
    }

    @Test
    void namesAFileOfOtherContent() throws Exception {
        Path file = Files.writeString(directory.resolve("result.json"), "{\"rows\":[{\"setup\":\"ring-9\"}]}");
        assertThatThrownBy(() -> Json.read(file, Result.class)).isInstanceOf(DataException.class)
                .hasMessageContaining("result.json").hasMessageContaining("ring-9");
        Files.writeString(file, "{\"name\": \"another program\"}");
        assertThatThrownBy(() -> Json.read(file, Result.class)).isInstanceOf(DataException.class)
                .hasMessageContaining("result.json").hasMessageContaining("must have machine, recipe, rows");
    }

    @Test
    void readsMessagesOfTheBenchmark() {
        String one = "{\"case\":\"roundtrip\",\"processes\":2,\"bytes\":1024,\"unit\":\"µs\","
                + "\"implementation\":\"starling\",\"ours\":0.800,\"peer\":\"grpc\",\"theirs\":180.5,"
                + "\"ratio\":200,\"how\":\"\"}";
        assertThat(Messages.parse("a line\n{\"cases\":[" + one + "," + one.replace("\"starling\"",
                "\"starling network aeron\"").replace("0.800", "11") + "]}\n")).containsExactly(
                new Message("starling", 1024, 0.8), new Message("starling network aeron", 1024, 11),
                new Message("grpc", 1024, 180.5));
        assertThatThrownBy(() -> Messages.parse("no peers")).hasMessageContaining("no peers");
    }

    @Test
    void adaptsTheRateToTheImagesOfAnUpdate() {
        Recipe recipe = result().recipe();
        assertThat(recipe.updateBatch(Setup.RING_4)).isEqualTo(96);
        assertThat(recipe.updateRate(Setup.RING_4)).isEqualTo(4e-3);
        assertThat(recipe.updateBatch(Setup.GOSSIP_4)).isEqualTo(24);
        assertThat(recipe.updateRate(Setup.GOSSIP_4)).isEqualTo(2e-3);
    }

    @Test
    void namesTheTransportsOfMessages() {
        assertThat(List.of("starling network tcp", "starling network aeron", "starling network ucx")).extracting(
                Table::title).containsExactly("Starling, TCP", "Starling, Aeron over UDP", "Starling, UCX over TCP");
    }
}
