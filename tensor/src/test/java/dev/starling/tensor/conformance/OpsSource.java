package dev.starling.tensor.conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The source of the operations, for the first sentences of their Javadoc. */
final class OpsSource {
    private final Path root;

    /** Finds the repository that holds the working directory. */
    OpsSource() {
        Path at = Path.of("").toAbsolutePath();
        while (!Files.isDirectory(at.resolve("tensor/src/main/java"))) {
            at = at.getParent();
        }
        root = at;
    }

    /** Returns the path of the table. */
    Path table() {
        return root.resolve("docs/ops.md");
    }

    /** Returns the first sentence of a type's Javadoc, as Markdown that fits into a table cell. */
    String summary(Class<?> type) {
        Class<?> top = type.getEnclosingClass() == null ? type : type.getEnclosingClass();
        Path file = root.resolve("tensor/src/main/java/" + top.getName().replace('.', '/') + ".java");
        try {
            Matcher m = Pattern.compile("/\\*\\*((?:(?!\\*/).)*)\\*/\\s*(?:public |sealed )*(?:record|interface) "
                    + type.getSimpleName() + "\\b", Pattern.DOTALL).matcher(Files.readString(file));
            if (!m.find()) {
                throw new AssertionError("no Javadoc on " + type.getSimpleName() + " in " + file);
            }
            return markdown(m.group(1));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static String markdown(String javadoc) {
        String text = javadoc.replaceAll("(?m)^\\s*\\* ?", " ").replaceAll("\\s+", " ").strip();
        text = text.replaceAll("@param.*", "").replaceAll("\\{@code ([^}]*)}", "`$1`")
                .replaceAll("\\{@link (?:[\\w.]*[.#])?(\\w+)(?: (\\w+))?}", "$1").strip();
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("|", "\\|");
        int end = text.indexOf(". ");
        return end < 0 ? text : text.substring(0, end + 1);
    }
}
