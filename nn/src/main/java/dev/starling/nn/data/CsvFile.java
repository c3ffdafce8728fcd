package dev.starling.nn.data;

import de.siegmar.fastcsv.reader.CsvParseException;
import de.siegmar.fastcsv.reader.CsvReader;
import de.siegmar.fastcsv.reader.CsvRecord;
import de.siegmar.fastcsv.reader.CsvRecordHandler;
import de.siegmar.fastcsv.reader.FieldMismatchStrategy;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * A file of comma-separated values (RFC 4180), read by FastCSV into a {@link Table}. Each method but {@link #read}
 * changes a setting and returns this object. A byte order mark and empty lines are skipped.
 *
 * <pre>{@code
 * Table houses = CsvFile.of(path).separator(';').texts("postcode").read();
 * }</pre>
 */
public final class CsvFile {
    private static final String FILE = "a file of comma-separated values";
    private static final int MAX_FIELDS = 1 << 20;
    private static final int LONGEST_QUOTED = 60;
    private static final byte[] GZIP = {0x1f, (byte) 0x8b};
    private static final char BYTE_ORDER_MARK = '\ufeff';

    private final Path path;
    private final Map<String, ColumnBuilder.Type> types = new LinkedHashMap<>();
    private char separator = ',';
    private char quote = '"';
    private char decimal = '.';
    private Charset charset = StandardCharsets.UTF_8;
    private Set<String> missing = Set.of("", "NA", "N/A", "NaN", "nan", "null", "NULL");
    /** The names of the columns if the file has no header, else {@code null}. */
    private @Nullable List<String> header;

    private CsvFile(Path path) {
        this.path = path;
    }

    /** Returns a file with a header, values separated by commas, in UTF-8. */
    public static CsvFile of(Path path) {
        return new CsvFile(path);
    }

    /** Sets the character between two values; default is a comma. */
    public CsvFile separator(char character) {
        separator = character;
        return this;
    }

    /** Sets the character around a value that contains separators, quotes or line breaks; default {@code "}. */
    public CsvFile quote(char character) {
        quote = character;
        return this;
    }

    /** Sets the character between a number's units and tenths; default is a point. */
    public CsvFile decimal(char character) {
        decimal = character;
        return this;
    }

    /** Sets the encoding; default UTF-8. */
    public CsvFile charset(Charset encoding) {
        charset = encoding;
        return this;
    }

    /**
     * Sets the texts that stand for a missing value, in every column. Default are the empty text, {@code NA},
     * {@code N/A}, {@code NaN}, {@code nan}, {@code null} and {@code NULL}.
     */
    public CsvFile missing(String... texts) {
        missing = Set.copyOf(Arrays.asList(texts));
        return this;
    }

    /** Names the columns of a file without a header, from left to right. */
    public CsvFile header(String... names) {
        header = List.of(names);
        return this;
    }

    /**
     * Names columns that must contain numbers. A column that is named in neither {@code numbers} nor {@link #texts}
     * contains numbers if all its values that are not missing are decimal numbers, and otherwise texts.
     */
    public CsvFile numbers(String... columns) {
        Arrays.stream(columns).forEach(name -> types.put(name, ColumnBuilder.Type.NUMBERS));
        return this;
    }

    /** Names columns of texts, such as codes of digits whose zeros in front must not be lost. */
    public CsvFile texts(String... columns) {
        Arrays.stream(columns).forEach(name -> types.put(name, ColumnBuilder.Type.TEXTS));
        return this;
    }

    /**
     * Reads the file.
     *
     * @throws DataException if it cannot be read, is malformed, has two columns of one name or lacks one that was
     *     named, or if a line has another number of values than the header or no number where one must be; the message
     *     names file, line and column
     */
    public Table read() {
        if (!Files.exists(path)) {
            throw new DataException(path, FILE, "no file", "check the path");
        }
        DataException.requireFile(path, FILE);
        requireText();
        try (BufferedReader text = Files.newBufferedReader(path, charset)) {
            text.mark(1);
            if (text.read() != BYTE_ORDER_MARK) {
                text.reset();
            }
            return read(CsvReader.builder().fieldSeparator(separator).quoteCharacter(quote).allowUnclosedQuote(false)
                    .extraFieldStrategy(FieldMismatchStrategy.IGNORE).missingFieldStrategy(FieldMismatchStrategy.IGNORE)
                    .build(CsvRecordHandler.of(h -> h.maxFields(MAX_FIELDS)), text).iterator());
        } catch (CsvParseException e) {
            throw malformed(e);
        } catch (UncheckedIOException e) {
            throw unreadable(Objects.requireNonNull(e.getCause()));
        } catch (IOException e) {
            throw unreadable(e);
        } catch (IllegalArgumentException e) {
            throw new DataException(path, "different characters as separator and quote", "'" + separator + "' and '"
                    + quote + "'", "change one of them", e);
        }
    }

    private void requireText() {
        try (InputStream bytes = Files.newInputStream(path)) {
            if (Arrays.equals(bytes.readNBytes(GZIP.length), GZIP)) {
                throw new DataException(path, FILE, "data compressed by gzip", "decompress the file first, for example "
                        + "with gunzip");
            }
        } catch (IOException e) {
            throw unreadable(e);
        }
    }

    private Table read(Iterator<CsvRecord> records) {
        List<String> names = header;
        int headerLine = 0;
        if (names == null) {
            if (!records.hasNext()) {
                throw new DataException(path, "a header with the names of the columns", "an empty file",
                        "write the names into its first line");
            }
            CsvRecord first = records.next();
            names = first.getFields();
            headerLine = (int) first.getStartingLineNumber();
        }
        ColumnBuilder[] columns = columns(names, headerLine);
        List<Integer> lines = new ArrayList<>();
        while (records.hasNext()) {
            CsvRecord row = records.next();
            long line = row.getStartingLineNumber();
            if (row.getFieldCount() != columns.length) {
                throw new DataException(path, columns.length + " values in line " + line + ", as "
                        + (header == null ? "in the header" : "names were given"), Integer.toString(
                        row.getFieldCount()), "put values that contain '" + separator + "' into " + quote
                        + ", or check the separator");
            }
            for (int i = 0; i < columns.length; i++) {
                String value = row.getField(i);
                if (!columns[i].add(missing.contains(value) ? null : value)) {
                    throw new DataException(path, "a finite decimal number in line " + line + ", column " + (i + 1)
                            + " \"" + names.get(i) + "\"", "\"" + shortened(value) + "\"",
                            "correct the value, add it to missing(..) or read the column with texts(..)");
                }
            }
            lines.add((int) line);
        }
        Map<String, Column> built = new LinkedHashMap<>();
        for (int i = 0; i < columns.length; i++) {
            built.put(names.get(i), columns[i].build());
        }
        return new Table(built, lines.size(), path, lines.stream().mapToInt(i -> i).toArray(), false);
    }

    private ColumnBuilder[] columns(List<String> names, int line) {
        Set<String> seen = new HashSet<>();
        for (int i = 0; i < names.size(); i++) {
            if (!seen.add(names.get(i))) {
                throw new DataException(path, "a name of its own for each column in " + (line == 0 ? "header(..)"
                        : "line " + line), "\"" + names.get(i) + "\" again in column " + (i + 1), "rename the column");
            }
        }
        for (String name : types.keySet()) {
            if (!seen.contains(name)) {
                throw new DataException(path, "a column \"" + name + "\"", "the columns " + names,
                        "correct the name, or check the separator");
            }
        }
        return names.stream().map(name -> new ColumnBuilder(types.getOrDefault(name, ColumnBuilder.Type.EITHER),
                decimal)).toArray(ColumnBuilder[]::new);
    }

    private static String shortened(String value) {
        return value.length() <= LONGEST_QUOTED ? value : value.substring(0, LONGEST_QUOTED) + "…";
    }

    private DataException malformed(CsvParseException e) {
        if (e.getCause() instanceof IOException inner) {
            return unreadable(inner);
        }
        String found = e.getMessage() + (e.getCause() == null ? "" : ": " + e.getCause().getMessage());
        // FastCSV has exceptions of one type; the messages on its limits contain "max" or "maximum".
        return found.contains(" max") ? new DataException(path, "values of at most 2^24 characters, and lines of at "
                + "most 2^26 characters and 2^20 values", found, "leave out what is longer, or close the quote of the "
                + "value, which without it continues to the end of the file", e)
                : new DataException(path, "comma-separated values as RFC 4180 describes them", found,
                "double each quote inside a quoted value, and close the last one", e);
    }

    private DataException unreadable(IOException e) {
        return e instanceof CharacterCodingException
                ? new DataException(path, "text in " + charset, "other bytes: " + e, "set the file's charset(..)", e)
                : new DataException(path, "a file that can be read", e.toString(), "check the disk and the permissions",
                        e);
    }
}
