"""Dates of documents and of filters: whatever stands there is a moment or none, and never an error."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from parallelsearch.rollout.types import Filter
from parallelsearch.schemas.retrieval import FilterModel
from retriever.documents.dates import moment_of
from retriever.documents.filtering import DocumentFilter
from retriever.documents.records import DocumentRecord

MANY = "9" * 20


@pytest.mark.parametrize(
    "text",
    [
        f"Mon, 01 Jan 2020 00:00:00 +{MANY}",
        f"Mon, 01 Jan {MANY} 00:00:00 +0000",
        f"Mon, {MANY} Jan 2020 00:00:00 +0000",
        f"Mon, 01 Jan 2020 {MANY}:00:00 +0000",
        f"Mon, 01 Jan 2020 00:00:{MANY} +0000",
        f"{MANY}-01-01",
        f"2020-01-01T00:00:00+{MANY}",
        "Mon, 01 Jan 2020 00:00:00 +999999",
        "some day",
        "",
    ],
)
def test_what_is_no_date_is_none(text):
    assert moment_of(text) is None


def test_days_moments_and_dates_of_mails_are_moments():
    assert moment_of("2024-05-06") == datetime(2024, 5, 6, tzinfo=UTC)
    assert moment_of("2024-05-06T10:00:00+02:00") == datetime(2024, 5, 6, 8, tzinfo=UTC)
    assert moment_of("Mon, 06 May 2024 08:00:00 GMT") == datetime(2024, 5, 6, 8, tzinfo=UTC)


@pytest.mark.parametrize("name", ["after", "before"])
@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_moment_that_has_no_year_in_utc_is_refused_by_its_field(name, text):
    with pytest.raises(ValidationError, match="must be a day or a moment") as raised:
        FilterModel.model_validate({name: text})
    assert [fault["loc"] for fault in raised.value.errors()] == [(name,)]


def test_the_first_and_the_last_moment_of_a_document_can_be_filtered_by():
    ends = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")
    records = [DocumentRecord(date, "", "indexed", first_row=row, rows=1, date=date) for row, date in enumerate(ends)]
    documents = DocumentFilter(records)
    given = FilterModel(after="2024-01-01").after
    assert documents.rows(Filter(after=given)).tolist() == [1]
    assert documents.rows(Filter(before=given)).tolist() == [0]
