package dev.starling.nn.train;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A terminal that behaves like tmux and most others: a line that is too long wraps, lines are rewrapped when the width
 * changes, and the cursor stays at its character. It understands line ends and the three escape sequences that the
 * progress bar uses.
 */
final class TerminalScreen {
    private static final Pattern SEQUENCE = Pattern.compile("\u001b\\[([?0-9]*)([a-zA-Z])");

    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private final PrintStream stream = new PrintStream(bytes, true, StandardCharsets.UTF_8);
    /** Lines of cells. A wide character is followed by an empty cell. */
    private final List<List<String>> lines = new ArrayList<>(List.of(new ArrayList<>()));
    private int columns;
    private int line;
    private int cell;
    private boolean wraps = true;
    private boolean wrapped;
    private int clearedScreens;

    TerminalScreen(int columns) {
        this.columns = columns;
    }

    PrintStream stream() {
        return stream;
    }

    int columns() {
        return columns;
    }

    void resize(int width) {
        show();
        columns = width;
    }

    /**
     * Returns whether a text has reached the last column since the last call; some terminals wrap after that column.
     */
    boolean reachedLastColumn() {
        show();
        boolean answer = wrapped;
        wrapped = false;
        return answer;
    }

    /**
     * Returns how often everything from the first cell on was cleared, which makes tmux move the screen into its
     * history.
     */
    int clearedScreens() {
        show();
        return clearedScreens;
    }

    /** Returns the visible rows. */
    List<String> rows() {
        show();
        List<String> rows = new ArrayList<>();
        for (List<String> each : lines) {
            for (int from = 0; from == 0 || from < each.size(); from += columns) {
                rows.add(String.join("", each.subList(from, Math.min(each.size(), from + columns))).stripTrailing());
            }
        }
        return rows;
    }

    private void show() {
        String text = bytes.toString(StandardCharsets.UTF_8);
        bytes.reset();
        Matcher sequence = SEQUENCE.matcher(text);
        for (int i = 0; i < text.length();) {
            int character = text.codePointAt(i);
            if (character == '\u001b') {
                if (!sequence.find(i) || sequence.start() != i) {
                    throw new AssertionError("not a sequence: " + text.substring(i));
                }
                control(sequence.group(1) + sequence.group(2));
                i = sequence.end();
                continue;
            }
            i += Character.charCount(character);
            switch (character) {
                case '\r' -> cell = rowStart();
                case '\n' -> nextLine();
                default -> print(character);
            }
        }
    }

    /**
     * Returns the first cell of the cursor's row. A cursor after the last column of a full row is still in that row.
     */
    private int rowStart() {
        return cell > 0 && cell == lines.get(line).size() ? (cell - 1) / columns * columns : cell / columns * columns;
    }

    private void nextLine() {
        line++;
        cell = 0;
        if (line == lines.size()) {
            lines.add(new ArrayList<>());
        }
    }

    private void control(String what) {
        switch (what) {
            case "?7l" -> wraps = false;
            case "?7h" -> wraps = true;
            case "K" -> lines.get(line).subList(cell, Math.min(lines.get(line).size(), rowStart() + columns)).clear();
            case "J" -> {
                clearedScreens += line == 0 && cell == 0 ? 1 : 0;
                lines.get(line).subList(cell, lines.get(line).size()).clear();
                lines.subList(line + 1, lines.size()).clear();
            }
            default -> throw new AssertionError("unknown sequence " + what);
        }
    }

    private void print(int character) {
        String shown = Character.toString(character);
        List<String> cells = lines.get(line);
        if (Character.getType(character) == Character.NON_SPACING_MARK) {
            cells.set(cell - 1, cells.get(cell - 1) + shown);
            return;
        }
        boolean wide = Character.UnicodeScript.of(character) == Character.UnicodeScript.HAN
                || Character.UnicodeScript.of(character) == Character.UnicodeScript.HANGUL
                || Character.isEmojiPresentation(character);
        int start = rowStart();
        if (!wraps && cell + (wide ? 2 : 1) > start + columns) {
            cell = start + columns - (wide ? 2 : 1);
        }
        for (String each : wide ? List.of(shown, "") : List.of(shown)) {
            if (cell < cells.size()) {
                cells.set(cell, each);
            } else {
                cells.add(each);
            }
            cell++;
        }
        wrapped |= cell >= columns;
    }
}
