package dev.starling.nn.train;

/** How many columns of a terminal a text takes. */
final class TextWidth {
    private static final int EMOJI_SELECTOR = 0xfe0f;

    private TextWidth() {
    }

    /** Returns the columns that a printable text takes; not less than a terminal gives it. */
    static int of(String text) {
        return text.codePoints().map(TextWidth::of).sum();
    }

    /**
     * Returns 0 for marks that join the character before them, 2 for characters of East Asia and emoji, else 1. A few
     * above U+2E80 are narrow, such as half-width kana: an empty column does no harm, a missing one does.
     */
    private static int of(int character) {
        int type = Character.getType(character);
        if (type == Character.NON_SPACING_MARK || type == Character.ENCLOSING_MARK) {
            return character == EMOJI_SELECTOR ? 1 : 0;
        }
        boolean isWide = character >= 0x1100 && character <= 0x115f || character >= 0x2e80
                || Character.isEmojiPresentation(character);
        return isWide ? 2 : 1;
    }

    /** Returns a text on one line, without what moves the cursor or turns the direction of writing. */
    static String printable(String text) {
        StringBuilder shown = new StringBuilder(text.length());
        text.codePoints().forEach(c -> {
            switch (Character.getType(c)) {
                case Character.CONTROL, Character.LINE_SEPARATOR, Character.PARAGRAPH_SEPARATOR -> shown.append(' ');
                case Character.FORMAT, Character.SURROGATE -> { }
                default -> shown.appendCodePoint(c);
            }
        });
        return shown.toString();
    }

    /** Returns a printable text, or its beginning and {@code more} if it takes more than {@code columns}. */
    static String cut(String text, int columns, String more) {
        if (of(text) <= columns) {
            return text;
        }
        int end = 0;
        int room = columns - of(more);
        while (end < text.length()) {
            int character = text.codePointAt(end);
            room -= of(character);
            if (room < 0) {
                break;
            }
            end += Character.charCount(character);
        }
        return text.substring(0, end) + more;
    }
}
