package dev.starling.nn.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class CsvFileTest {
    @TempDir
    private Path directory;

    private CsvFile file(String text) throws IOException {
        return file(text, StandardCharsets.UTF_8);
    }

    private CsvFile file(String text, Charset charset) throws IOException {
        return CsvFile.of(Files.writeString(directory.resolve("houses.csv"), text, charset));
    }

    private void refuses(String text, UnaryOperator<CsvFile> settings, String... parts) {
        assertThatThrownBy(() -> settings.apply(file(text)).read()).isInstanceOf(DataException.class)
                .hasMessageContaining("houses.csv").hasMessageContainingAll(parts).hasNoNullFieldsOrProperties();
    }

    private static List<String> texts(Table table, String column) {
        return IntStream.range(0, table.rows()).mapToObj(row -> String.valueOf(table.text(column, row))).toList();
    }

    @Test
    void readsNumbersTextsAndMissingValues() throws IOException {
        Table table = file("area,city,rooms\n70.5,Bern,3\n,\"Biel, BE\",NA\n1e2,,-4\n").read();
        assertThat(table.rows()).isEqualTo(3);
        assertThat(table.columns()).containsExactly("area", "city", "rooms");
        assertThat(table.numbers("area")).containsExactly(70.5, Double.NaN, 100);
        assertThat(table.numbers("rooms")).containsExactly(3, Double.NaN, -4);
        assertThat(texts(table, "city")).containsExactly("Bern", "Biel, BE", "null");
        assertThat(texts(table, "rooms")).containsExactly("3", "null", "-4");
        assertThat(table).hasToString(
                "Table of 3 rows\n  area: numbers, 1 missing\n  city: texts, 1 missing\n  rooms: numbers, 1 missing");
    }

    @Test
    void readsWhatSpreadsheetsWrite() throws IOException {
        Table table = file("\ufeffa;b\r\n\"1,5\";\"say \"\"no\"\"\"\r\n\r\n2;\"two\r\nlines\"\r\n3;x").separator(';')
                .decimal(',').read();
        assertThat(table.numbers("a")).containsExactly(1.5, 2, 3);
        assertThat(texts(table, "b")).containsExactly("say \"no\"", "two\r\nlines", "x");
        assertThat(table.origin(2)).endsWith("houses.csv, line 6");
        assertThat(texts(file("k,v\nZürich,1\n", StandardCharsets.ISO_8859_1).charset(StandardCharsets.ISO_8859_1)
                .read(), "k")).containsExactly("Zürich");
        assertThat(file("1,2\n3,4\n").header("a", "b").read().numbers("b")).containsExactly(2, 4);
        assertThat(file("a|b\n'x|y'|1\n").separator('|').quote('\'').read().text("a", 0)).isEqualTo("x|y");
    }

    @Test
    void keepsZerosInFrontAndLongDigitsInColumnsOfTexts() throws IOException {
        Table table = file("zip,id\n01234,12345678901234567890\n").texts("zip", "id").read();
        assertThat(table.text("zip", 0)).isEqualTo("01234");
        assertThat(table.text("id", 0)).isEqualTo("12345678901234567890");
        assertThat(table.isNumeric("zip")).isFalse();
    }

    @ParameterizedTest
    @ValueSource(strings = {"abc", "1e999", "-1e999", "0x10", "1d", "1f", "Infinity", "1,5", "1 2", "--1", "1e", ".",
        "+", "١", "1.2.3"})
    void readsNoNumberFrom(String text) throws IOException {
        refuses("a,b\n1,2\n\"" + text + "\",4\n", f -> f.numbers("a"), "line 3, column 1 \"a\"", "\"" + text + "\"",
                "texts(");
        // Without a declaration the column has texts.
        assertThat(file("a,b\n1,2\n\"" + text + "\",4\n").read().text("a", 1)).isEqualTo(text);
    }

    @ParameterizedTest
    @CsvSource({"1, 1", "+1, 1", "-0, -0.0", "1e3, 1000", ".5, 0.5", "5., 5", "1E-400, 0", "' 7 ', 7",
        "1.7976931348623157e308, 1.7976931348623157e308"})
    void readsTheNumber(String text, double number) throws IOException {
        assertThat(file("a,b\n\"" + text + "\",x\n").numbers("a").read().number("a", 0)).isEqualTo(number);
    }

    @Test
    void namesTheLineOfWhatIsWrong() {
        refuses("a,b\n1,2\n3\n", f -> f, "2 values in line 3", "found 1");
        refuses("a,b\n\"x\ny\",2\n3,4,5\n", f -> f, "2 values in line 4", "found 3");
        refuses("a,b,a\n", f -> f, "line 1", "\"a\" again in column 3");
        refuses("1,2\n", f -> f.header("a", "a"), "column in header(..)", "\"a\" again in column 2");
        refuses("a,b\n1,2\n", f -> f.numbers("c"), "a column \"c\"", "[a, b]");
        refuses("", f -> f, "an empty file");
        refuses("a,b\n1,\"open\n3,4\n", f -> f, "RFC 4180", "line 2");
        refuses("a,b\n1,\"x\"y\n", f -> f, "RFC 4180", "line 2");
        refuses("a\n1\n", f -> f.separator('"'), "different characters");
        assertThatThrownBy(() -> CsvFile.of(directory.resolve("none.csv")).read()).isInstanceOf(DataException.class)
                .hasMessageContaining("none.csv").hasMessageContaining("no file");
        assertThatThrownBy(() -> file("a\nZürich\n", StandardCharsets.ISO_8859_1).read())
                .isInstanceOf(DataException.class).hasMessageContainingAll("text in UTF-8", "charset");
    }

    @Test
    void refusesCompressedDataInAnyCharset() throws IOException {
        Path path = directory.resolve("houses.csv.gz");
        try (OutputStream out = new GZIPOutputStream(Files.newOutputStream(path))) {
            out.write("a,b\n1,2\n".getBytes(StandardCharsets.UTF_8));
        }
        for (Charset charset : List.of(StandardCharsets.UTF_8, StandardCharsets.ISO_8859_1)) {
            assertThatThrownBy(() -> CsvFile.of(path).charset(charset).read()).isInstanceOf(DataException.class)
                    .hasMessageContainingAll("houses.csv.gz", "compressed by gzip", "gunzip");
        }
    }

    @Test
    void refusesWhatIsNoRegularFile() {
        assertThatThrownBy(() -> CsvFile.of(directory).read()).isInstanceOf(DataException.class)
                .hasMessageContaining("a directory, a pipe or a device");
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void refusesAPipeInsteadOfWaitingForIt() throws Exception {
        Path pipe = directory.resolve("pipe");
        assertThat(new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor()).isZero();
        assertThatThrownBy(() -> CsvFile.of(pipe).read()).isInstanceOf(DataException.class)
                .hasMessageContainingAll("a pipe", "write what a pipe contains to");
    }

    @Test
    void namesTheLimitThatAValueExceeds() {
        String most = "x".repeat(1 << 24);
        refuses("a\n" + most + "x\n", f -> f, "at most 2^24 characters", "line 2", "close the quote");
        refuses("a\n\"" + most + "\n", f -> f, "at most 2^24 characters", "line 2", "close the quote");
        refuses("a" + ",".repeat(1 << 20) + "\n", f -> f, "2^20 values", "line 1");
    }

    @Test
    void namesTheValueThatMakesAColumnTexts() throws IOException {
        Table table = file("a,b\n1,2\nn.a.,4\n").read();
        assertThatThrownBy(() -> table.numbers("a")).isInstanceOf(TensorException.class)
                .hasMessageContaining("\"n.a.\" in ").hasMessageContaining("line 3");
        assertThatThrownBy(() -> table.numbers("c")).hasMessageContaining("[a, b]");
        Table commas = file("a;b\n1,5;2\nn.a.;4\n").separator(';').decimal(',').read();
        assertThatThrownBy(() -> commas.numbers("a")).hasMessageContaining("\"n.a.\" in ");
        assertThatThrownBy(() -> commas.rows(0, 1).numbers("a")).hasMessageContaining("\"n.a.\" in ");
    }

    @Test
    void hasNoRowsBelowAHeaderAlone() throws IOException {
        Table table = file("a,b\n").read();
        assertThat(table.rows()).isZero();
        assertThat(table.numbers("a")).isEmpty();
    }

    /** Draws tables, writes them by RFC 4180 with quotes where they are needed and at random, and reads them. */
    @Test
    void readsWhatWasWritten() throws IOException {
        String[] pieces = {"", "a", ",", "\"", "\n", "\r\n", " ", "é", "\ufeff", "12", "-3.5", "NA", ";", "'", "\t"};
        for (int seed = 0; seed < 400; seed++) {
            Random random = new Random(seed);
            int columns = 2 + random.nextInt(4);
            int rows = random.nextInt(6);
            String end = random.nextBoolean() ? "\n" : "\r\n";
            StringBuilder text = new StringBuilder(random.nextBoolean() ? "\ufeff" : "");
            List<List<String>> values = new ArrayList<>();
            for (int row = 0; row <= rows; row++) {
                List<String> each = new ArrayList<>();
                for (int column = 0; column < columns; column++) {
                    String value = row == 0 ? "c" + column
                            : pieces[random.nextInt(pieces.length)] + pieces[random.nextInt(pieces.length)];
                    boolean quoted = random.nextInt(3) == 0 || value.matches("(?s).*[,\"\\r\\n].*");
                    text.append(column > 0 ? "," : "").append(quoted ? "\"" + value.replace("\"", "\"\"") + "\""
                            : value);
                    each.add(value);
                }
                values.add(each);
                text.append(row == rows && random.nextBoolean() ? "" : end);
            }
            Table table = file(text.toString()).missing("NA").texts("c0").read();
            assertThat(table.rows()).as("seed %d", seed).isEqualTo(rows);
            for (int row = 0; row < rows; row++) {
                for (int column = 0; column < columns; column++) {
                    String expected = values.get(row + 1).get(column);
                    String name = "c" + column;
                    if (expected.equals("NA")) {
                        assertThat(table.text(name, row)).as("seed %d", seed).isNull();
                    } else if (table.isNumeric(name)) {
                        assertThat(table.number(name, row)).isEqualTo(Double.parseDouble(expected));
                    } else {
                        assertThat(table.text(name, row)).as("seed %d", seed).isEqualTo(expected);
                    }
                }
            }
        }
    }

    /** Whatever the bytes, the result is a table with values in each cell, or an exception that names the file. */
    @Test
    void givesATableOrAnErrorForAnyBytes() throws IOException {
        byte[] alphabet = {'a', '1', ',', ',', '\n', '\n', '"', '"', '\r', ' ', '.', '-', 'e', (byte) 0xff, (byte) 0xc3,
            (byte) 0xa9, 0, '\t', (byte) 0xef, (byte) 0xbb, (byte) 0xbf};
        Path path = directory.resolve("any.csv");
        int tables = 0;
        for (int seed = 0; seed < 2000; seed++) {
            Random random = new Random(seed);
            byte[] bytes = new byte[random.nextInt(40)];
            for (int i = 0; i < bytes.length; i++) {
                bytes[i] = alphabet[random.nextInt(seed % 2 == 0 ? 13 : alphabet.length)];
            }
            Files.write(path, bytes);
            try {
                Table table = CsvFile.of(path).read();
                tables++;
                for (String column : table.columns()) {
                    assertThat(texts(table, column)).hasSize(table.rows()).allMatch(Objects::nonNull);
                }
            } catch (DataException e) {
                assertThat(e).as("seed %d", seed).hasMessageContaining("any.csv");
            }
        }
        assertThat(tables).isBetween(100, 1900);
    }
}
