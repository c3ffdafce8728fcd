package dev.starling.nn.train;

/** Computes how many columns of a terminal a text takes. */
final class TextWidth {
    private static final int EMOJI_SELECTOR = 0xfe0f;

    private TextWidth() {
    }

    /** Returns the columns that a printable text takes. The result may be too large, but never too small. */
    static int of(String text) {
        return text.codePoints().map(TextWidth::of).sum();
    }

    /**
     * Returns 0 for marks that combine with the preceding character, 2 for East Asian characters and emoji, otherwise
     * 1. A few characters above U+2E80 are narrow, such as half-width kana; an empty column is harmless, a missing one
     * is not.
     */
    private static int of(int character) {
        int type = Character.getType(character);
        if (type == Character.NON_SPACING_MARK || type == Character.ENCLOSING_MARK) {
            return character == EMOJI_SELECTOR ? 1 : 0;
        }
        boolean wide = character >= 0x1100 && character <= 0x115f || character >= 0x2e80
                || Character.isEmojiPresentation(character);
        return wide ? 2 : 1;
    }

    /** Returns a text on one line, without characters that move the cursor or change the writing direction. */
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

    /** Returns a printable text, or its beginning followed by {@code more} if it takes more than {@code columns}. */
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
