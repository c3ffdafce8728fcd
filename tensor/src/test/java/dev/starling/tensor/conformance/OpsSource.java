package dev.starling.tensor.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The sources of the modules, for the first sentences of their Javadoc, and the pages generated from them. */
public final class OpsSource {
    private final Path root;

    /** Finds the repository that holds the working directory. */
    public OpsSource() {
        Path at = Path.of("").toAbsolutePath();
        while (!Files.isDirectory(at.resolve("tensor/src/main/java"))) {
            at = at.getParent();
        }
        root = at;
    }

    /** Requires a page to have the given text, or writes it if {@code starling.regenerate} is set. */
    public void requireCurrent(String page, String text, String module, String test) throws IOException {
        Path file = root.resolve(page);
        if (Boolean.getBoolean("starling.regenerate")) {
            Files.writeString(file, text);
        }
        List<String> wanted = text.lines().toList();
        List<String> found = Files.exists(file) ? Files.readAllLines(file) : List.of();
        String remedy = page + " is out of date: run `mvn -pl " + module + " -am test -Dtest=" + test
                + " -Dsurefire.failIfNoSpecifiedTests=false -Dstarling.regenerate=true`";
        for (int i = 0; i < Math.min(wanted.size(), found.size()); i++) {
            assertEquals(wanted.get(i), found.get(i), remedy);
        }
        assertEquals(wanted.size(), found.size(), remedy);
    }

    /** Returns the root of the repository. */
    public Path root() {
        return root;
    }

    /** Returns the source of a class of the package {@code dev.starling.tensor}, or of a package below it. */
    String text(String name) {
        try {
            return Files.readString(root.resolve("tensor/src/main/java/dev/starling/tensor/" + name + ".java"));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns the first sentence of the Javadoc of a type or field, as Markdown that fits into a table cell. */
    String summary(Object definition) {
        Class<?> type = definition instanceof Field field ? field.getDeclaringClass() : (Class<?>) definition;
        Class<?> top = type.getEnclosingClass() == null ? type : type.getEnclosingClass();
        String name = definition instanceof Field field ? "FormulaOp " + field.getName()
                : "(?:record|interface|class) " + type.getSimpleName();
        Matcher m = Pattern.compile("/\\*\\*((?:(?!\\*/).)*)\\*/\\s*(?:public |static |sealed |final )*" + name + "\\b",
                Pattern.DOTALL).matcher(text("op/" + top.getSimpleName()));
        if (!m.find()) {
            throw new AssertionError("no Javadoc on " + name + " in " + top);
        }
        return markdown(m.group(1));
    }

    /** Returns the first sentence of a Javadoc comment, as Markdown that fits into a table cell. */
    public static String markdown(String javadoc) {
        String text = javadoc.replaceAll("(?m)^\\s*\\* ?", " ").replaceAll("\\s+", " ").strip();
        text = text.replaceAll("@(param|return|throws).*", "").replaceAll("\\{@code ([^}]*)}", "`$1`")
                .replaceAll("\\{@link(?:plain)? [\\w.]*#?\\w*(?:\\([^)]*\\))? (\\w[^}]*)}", "$1")
                .replaceAll("\\{@link (?:[\\w.]*[.#])?(\\w+)(?:\\([^)]*\\))?}", "$1").strip();
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("|", "\\|");
        int end = text.indexOf(". ");
        return end < 0 ? text : text.substring(0, end + 1);
    }
}
