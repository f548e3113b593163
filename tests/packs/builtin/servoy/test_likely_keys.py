"""Foreign keys that are guessed, on schemas of three public sample databases.

A line is a table; `*` marks its primary key, `>` the table that a declared foreign key points to,
which the guess does not see. `/t` is a text, `/s` a short one, `/d` a moment, `/n` a number; others
are integers.
"""

import pytest

from toolgate.packs.builtin.servoy.database.likely_keys import potential_keys
from toolgate.packs.builtin.servoy.database.table import DbColumn, DbTable

CHINOOK = """
Album: *AlbumId Title/t ArtistId>Artist
Artist: *ArtistId Name/t
Customer: *CustomerId FirstName/t LastName/t Company/t Address/t City/t State/t Country/t
   PostalCode/t Phone/t Fax/t Email/t SupportRepId>Employee
Employee: *EmployeeId LastName/t FirstName/t Title/t ReportsTo>Employee BirthDate/d HireDate/d
   Address/t City/t State/t Country/t PostalCode/t Phone/t Fax/t Email/t
Genre: *GenreId Name/t
Invoice: *InvoiceId CustomerId>Customer InvoiceDate/d BillingAddress/t BillingCity/t
   BillingState/t BillingCountry/t BillingPostalCode/t Total/n
InvoiceLine: *InvoiceLineId InvoiceId>Invoice TrackId>Track UnitPrice/n Quantity
MediaType: *MediaTypeId Name/t
Playlist: *PlaylistId Name/t
PlaylistTrack: *PlaylistId>Playlist *TrackId>Track
Track: *TrackId Name/t AlbumId>Album MediaTypeId>MediaType GenreId>Genre Composer/t
   Milliseconds Bytes UnitPrice/n
"""

SAKILA = """
actor: *actor_id first_name/t last_name/t last_update/d
address: *address_id address/t address2/t district/t city_id>city postal_code/t phone/t
   last_update/d
category: *category_id name/t last_update/d
city: *city_id city/t country_id>country last_update/d
country: *country_id country/t last_update/d
customer: *customer_id store_id>store first_name/t last_name/t email/t address_id>address
   active create_date/d last_update/d
film: *film_id title/t description/t release_year language_id>language
   original_language_id>language rental_duration rental_rate/n length replacement_cost/n
   rating/t special_features/t last_update/d
film_actor: *actor_id>actor *film_id>film last_update/d
film_category: *film_id>film *category_id>category last_update/d
film_text: *film_id title/t description/t
inventory: *inventory_id film_id>film store_id>store last_update/d
language: *language_id name/t last_update/d
payment: *payment_id customer_id>customer staff_id>staff rental_id>rental amount/n
   payment_date/d last_update/d
rental: *rental_id rental_date/d inventory_id>inventory customer_id>customer return_date/d
   staff_id>staff last_update/d
staff: *staff_id first_name/t last_name/t address_id>address email/t store_id>store active
   username/t password/t last_update/d
store: *store_id manager_staff_id>staff address_id>address last_update/d
"""

NORTHWIND = """
categories: *category_id category_name/t description/t picture/t
customer_customer_demo: *customer_id/s>customers *customer_type_id/s>customer_demographics
customer_demographics: *customer_type_id/s customer_desc/t
customers: *customer_id/s company_name/t contact_name/t contact_title/t address/t city/t
   region/t postal_code/t country/t phone/t fax/t
employees: *employee_id last_name/t first_name/t title/t birth_date/d hire_date/d address/t
   city/t region/t postal_code/t country/t home_phone/t reports_to>employees photo_path/t
employee_territories: *employee_id>employees *territory_id/t>territories
order_details: *order_id>orders *product_id>products unit_price/n quantity discount/n
orders: *order_id customer_id/s>customers employee_id>employees order_date/d required_date/d
   shipped_date/d ship_via>shippers freight/n ship_name/t ship_address/t ship_city/t
   ship_region/t ship_postal_code/t ship_country/t
products: *product_id product_name/t supplier_id>suppliers category_id>categories
   quantity_per_unit/t unit_price/n units_in_stock units_on_order reorder_level discontinued
region: *region_id region_description/t
shippers: *shipper_id company_name/t phone/t
suppliers: *supplier_id company_name/t contact_name/t contact_title/t address/t city/t
   region/t postal_code/t country/t phone/t fax/t homepage/t
territories: *territory_id/t territory_description/t region_id>region
us_states: *state_id state_name/t state_abbr/t state_region/t
"""

TYPES = {"": (4, 0), "t": (12, 40), "s": (12, 5), "d": (93, 0), "n": (2, 0)}

Key = tuple[str, str, str]


def schema(text: str) -> tuple[list[DbTable], set[Key]]:
    """The tables of a schema, and its declared foreign keys."""
    tables: list[DbTable] = []
    declared: set[Key] = set()
    for line in text.strip().replace("\n   ", " ").split("\n"):
        name, _, described = line.partition(":")
        columns: list[DbColumn] = []
        for word in described.split():
            spelt, _, target = word.removeprefix("*").partition(">")
            column, _, kind = spelt.partition("/")
            sql_type, length = TYPES[kind]
            flags = int(word.startswith("*"))
            columns.append(DbColumn(name=column, sql_type=sql_type, length=length, flags=flags))
            if target:
                declared.add((name, column, target))
        tables.append(DbTable(name=name, columns=tuple(columns)))
    return tables, declared


def guessed(tables: list[DbTable]) -> set[Key]:
    return {(key.table, key.column, key.target) for key in potential_keys(tables)}


@pytest.mark.parametrize(
    ("text", "tables", "keys"), [(CHINOOK, 11, 11), (SAKILA, 16, 22), (NORTHWIND, 14, 13)]
)
def test_declared_keys_of_real_schemas_are_guessed(text: str, tables: int, keys: int) -> None:
    given, declared = schema(text)

    found = guessed(given)

    assert (len(given), len(declared)) == (tables, keys)
    assert len(found & declared) / len(found) >= 0.95
    assert len(found & declared) / len(declared) >= 0.9


def test_lone_generic_keys_are_never_a_pair() -> None:
    tables, _ = schema("\n".join(f"table{number}: *id name/t code" for number in range(120)))

    assert guessed(tables) == set()


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("orders: *id customer_id\ncustomers: *id", {("orders", "customer_id", "customers")}),
        ("orders: *id customers_id\ncustomer: *id", {("orders", "customers_id", "customer")}),
        ("orders: *id customerId\nCustomer: *id", {("orders", "customerId", "Customer")}),
        (
            "orders: *id billing_address_id\naddresses: *id",
            {("orders", "billing_address_id", "addresses")},
        ),
        ("shop_order: *id user_id\nauth_user: *id", {("shop_order", "user_id", "auth_user")}),
        ("nodes: *id parent_id", {("nodes", "parent_id", "nodes")}),
        ("notes: *id created_by\nusers: *id", {("notes", "created_by", "users")}),
        ("orders: *id fk_customer\ncustomers: *id", {("orders", "fk_customer", "customers")}),
        # A text beside a numeric key is no reference to it, nor is an amount that names a table.
        ("orders: *id customer_id/t\ncustomers: *id", set[Key]()),
        ("products: *id units_on_order\norders: *id", set[Key]()),
    ],
)
def test_columns_called_like_a_table_point_to_it(text: str, keys: set[Key]) -> None:
    assert guessed(schema(text)[0]) == keys
