// The reader of CSV files.
#include "vocabulary/csv.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tilewise/error.hpp"

namespace tilewise::csv_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Fields = std::vector<std::string>;

std::vector<Fields> fields_of(std::string_view text, CsvComments comments = CsvComments::none) {
  std::vector<Fields> rows;
  for (const CsvRow& row : csv_rows(text, comments)) rows.push_back(row.fields);
  return rows;
}

std::string refusal_of(std::string_view text) {
  try {
    csv_rows(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << "it was read: " << text;
  return "";
}

TEST(Csv, LineEndsAreThoseOfAnySystemAndTheLastMayBeMissing) {
  const std::vector<Fields> rows{{"a", "b"}, {"1", "2"}};
  EXPECT_EQ(fields_of("a,b\n1,2\n"), rows);
  EXPECT_EQ(fields_of("a,b\n1,2"), rows);
  EXPECT_EQ(fields_of("a,b\r\n1,2\r\n"), rows);
  EXPECT_EQ(fields_of("a,b\r\n1,2\r"), rows);
  EXPECT_EQ(fields_of("\xEF\xBB\xBF"
                      "a,b\n1,2\n"),
            rows)
      << "a byte order mark";
}

TEST(Csv, BlankLinesAreLeftOutAndLinesCounted) {
  EXPECT_TRUE(csv_rows("").empty());
  EXPECT_TRUE(csv_rows("\n\r\n \t\n").empty());
  const std::vector<CsvRow> rows = csv_rows("\r\na\r\n\r\n  \n\"b\nc\"\nd\n");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].line, 2);
  EXPECT_EQ(rows[1].line, 5);
  EXPECT_EQ(rows[1].fields, Fields{"b\nc"});
  EXPECT_EQ(rows[2].line, 7);
}

TEST(Csv, QuotedFieldsHoldCommasQuotesAndLineEnds) {
  EXPECT_THAT(fields_of("\"2,7\",\"a \"\"b\"\"\",\"\",\" x \"\n"),
              ElementsAre(Fields{"2,7", "a \"b\"", "", " x "}));
  EXPECT_THAT(fields_of("\"a\r\nb\",c\r\nd,e\n"),
              ElementsAre(Fields{"a\r\nb", "c"}, Fields{"d", "e"}));
  EXPECT_THAT(fields_of("\"\"\"\"\n"), ElementsAre(Fields{"\""}));
}

TEST(Csv, BlanksAroundFieldsAreLeftOut) {
  EXPECT_THAT(fields_of(" a\t, b c ,\t\"d\" ,\n"), ElementsAre(Fields{"a", "b c", "d", ""}));
  EXPECT_THAT(fields_of(",,\n"), ElementsAre(Fields{"", "", ""}));
}

TEST(Csv, CommentsAreLeftOutWhereAskedFor) {
  EXPECT_THAT(fields_of("# it's \"odd, \na\n#b\n", CsvComments::hash), ElementsAre(Fields{"a"}));
  EXPECT_THAT(fields_of("#pragma,1\n"), ElementsAre(Fields{"#pragma", "1"}));
  EXPECT_THAT(fields_of("\"#a\"\nb#\n", CsvComments::hash),
              ElementsAre(Fields{"#a"}, Fields{"b#"}));
}

TEST(Csv, WhatIsNoCsvIsRefusedWithItsLine) {
  EXPECT_THAT(refusal_of("a\n\"b\nc\n"), HasSubstr("line 2: a quote is not closed"));
  EXPECT_THAT(refusal_of("a\nb\n\"c\"d,e\n"), HasSubstr("line 3: there is text behind"));
  EXPECT_THAT(refusal_of("a\n6\" pipe,1\n"), HasSubstr("line 2: there is a quote inside"));
}

}  // namespace
}  // namespace tilewise::csv_test
